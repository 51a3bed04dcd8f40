"""Rich consoles that interpret no markup; apart from ``rendering``, so that only what draws loads Rich."""

from __future__ import annotations

import sys
from typing import IO

from rich.console import Console


class _Console(Console):
    """Rich's console, but a reader that went away is the caller's business."""

    def on_broken_pipe(self) -> None:
        raise


def console(file: IO[str] | None = None, *, width: int | None = None) -> Console:
    """Return a console on ``file`` (stdout) that interprets no markup; ``NO_COLOR`` and ``TERM`` are respected."""
    return _Console(file=file or sys.stdout, width=width, markup=False, emoji=False, highlight=False)


def is_unicode(console: Console) -> bool:
    """Whether the console's encoding can carry the marks of timelines and tables."""
    return not console.options.ascii_only
