"""Signals that end a command in order, as a future with the exit code; the second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from schedule_sm.cli.exit_codes import ExitCode

_CODES: Final = {
    "SIGINT": ExitCode.INTERRUPTED,
    "SIGTERM": ExitCode.TERMINATED,
    "SIGHUP": ExitCode.TERMINATED,
}


@contextmanager
def first_signal() -> Iterator[asyncio.Future[int]]:
    """Yield what the first signal completes with its exit code; the second one leaves without a close."""
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()

    def arrived(code: ExitCode) -> None:
        if first.done():
            os._exit(code)  # whoever asks twice does not want to wait for the disk; the store is crash-safe
        first.set_result(code)

    handled = []
    for name, code in _CODES.items():
        number = getattr(signal, name, None)
        try:
            if number is not None:
                loop.add_signal_handler(number, arrived, code)
                handled.append(number)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not in the main thread
            break
    try:
        yield first
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
