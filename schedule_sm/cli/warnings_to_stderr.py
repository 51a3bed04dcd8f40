"""Warnings of the library as one line each on stderr; with ``--debug`` their tracebacks too."""

from __future__ import annotations

import logging
import sys

from schedule_sm.cli.rendering import visible, visible_lines


class OneLineHandler(logging.Handler):
    """Writes to whatever stderr is at the moment, so that a prompt on the screen is not torn."""

    def __init__(self, *, with_traceback: bool) -> None:
        """Show tracebacks or not."""
        super().__init__(logging.WARNING)
        self._with_traceback = with_traceback

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            line = f"schedule-sm: {record.levelname.lower()}: {visible(record.getMessage())}\n"
            if self._with_traceback and record.exc_info:
                line += f"{visible_lines(logging.Formatter().formatException(record.exc_info))}\n"
            sys.stderr.write(line)
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)


def show_warnings(*, with_traceback: bool) -> None:
    """Let the project's loggers write to stderr, once, and nothing go to the root logger's last resort."""
    logger = logging.getLogger("schedule_sm")
    for handler in logger.handlers[:]:
        if isinstance(handler, OneLineHandler):
            logger.removeHandler(handler)
    logger.addHandler(OneLineHandler(with_traceback=with_traceback))
