"""Measures for how long an event loop stood still, apart from what other programs on the machine took from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_LOOK_S = 0.002
_THREADS = Path("/proc/self/task")
"""Linux: each has a ``schedstat``: ns on a processor, ns waited for one, and how often. Elsewhere load counts too."""


class LoopWatch:
    """``longest_s``: the longest time without a turn of the loop."""

    longest_s = 0.0

    async def look(self) -> None:
        loop = asyncio.get_running_loop()
        before_s, before_ns = loop.time(), _waited_ns()
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s, now_ns = loop.time(), _waited_ns()
            waited_s = sum(ns - before_ns.get(thread, 0) for thread, ns in now_ns.items()) / 1e9
            self.longest_s = max(self.longest_s, now_s - before_s - waited_s - _LOOK_S)
            before_s, before_ns = now_s, now_ns


def _waited_ns() -> dict[str, int]:
    """Return how long each thread of this process has waited for a processor; it may hold the interpreter's lock."""
    waited = {}
    for thread in _THREADS.glob("*/schedstat"):
        try:
            waited[thread.parent.name] = int(thread.read_text("ascii").split()[1])
        except OSError:
            continue  # it has just ended
    return waited


@asynccontextmanager
async def watching() -> AsyncIterator[LoopWatch]:
    watch = LoopWatch()
    looking = asyncio.ensure_future(watch.look())
    try:
        yield watch
    finally:
        looking.cancel()
        await asyncio.wait({looking})
