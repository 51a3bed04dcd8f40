"""The only reader of clocks: wall time in ms, timers of the event loop, and the watcher for jumps.

A timer is a hint; the deciding test is always ``now >= target``. CLOCK_MONOTONIC stands still while a laptop sleeps, so
one watcher per event loop compares wall clock and loop clock and tells its subscribers when they part.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from weakref import WeakKeyDictionary

_logger = logging.getLogger(__name__)

MAX_SEGMENT_MS: Final = 2_147_483_647
"""Longest single timer; what lies further away is waited for in segments of exactly this length."""

WATCH_INTERVAL_S: Final = 60.0
"""How often the watcher compares the clocks at least."""

JUMP_THRESHOLD_S: Final = 1.0
"""Less than this is slew; it is left in the comparison, so that slow drift adds up."""


class Timer(Protocol):
    """A pending call."""

    def cancel(self) -> None:
        """Drop it; harmless once it ran."""


class Clock(Protocol):
    """What the owner and the tools need of time."""

    def now_ms(self) -> int:
        """Return the wall clock as epoch ms."""

    def call_later(
        self, delay_ms: int, callback: Callable[[], None], *, since_ms: int | None = None
    ) -> Timer:
        """Call ``callback`` once ``delay_ms`` have passed on the event loop's clock, since a reading of ``now_ms``."""

    def watch(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_jump`` when wall and loop clock have parted; returns its disposer."""


def wall_ms() -> int:
    """Return the wall clock as epoch ms, rounded down."""
    return time.time_ns() // 1_000_000


class LoopClock:
    """The real clock of the running event loop."""

    def now_ms(self) -> int:
        """Return the wall clock as epoch ms."""
        return wall_ms()

    def call_later(
        self, delay_ms: int, callback: Callable[[], None], *, since_ms: int | None = None
    ) -> Timer:
        """Call ``callback`` once ``delay_ms`` have passed on the running loop's clock.

        Timers for one instant of the wall clock end together, whenever in a millisecond each was armed: what a
        thousand owners do then is done in step, and none waits for another's second drive.
        """
        loop = asyncio.get_running_loop()
        watcher = _WATCHERS.get(loop)
        if watcher is not None:
            watcher.note_armed()
        if since_ms is None:
            return loop.call_later(delay_ms / 1_000, callback)
        passed_ms = self.now_ms() - since_ms + time.time_ns() % 1_000_000 / 1e6
        return loop.call_later((delay_ms - passed_ms) / 1_000, callback)

    def watch(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Subscribe to the running loop's one watcher."""
        loop = asyncio.get_running_loop()
        watcher = _WATCHERS.get(loop)
        if watcher is None:
            watcher = _WATCHERS[loop] = DriftWatcher(loop)
        return watcher.subscribe(on_jump)


LOOP_CLOCK: Final = LoopClock()


class DriftWatcher:
    """Notices that wall clock and loop clock have parted: suspend, an NTP step, a clock set by hand.

    It runs while somebody subscribes; one tick serves them all.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch ``loop``'s clock against the wall clock."""
        self._loop = loop
        self._offset_s = 0.0
        self._is_armed_off = False
        self._tick_handle: asyncio.TimerHandle | None = None
        self._subscribers: dict[object, Callable[[], None]] = {}

    def subscribe(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_jump`` at each jump; the first subscriber starts the ticking, the last one ends it."""
        key = object()
        if not self._subscribers:
            self._offset_s = self._current_offset_s()
            self._arm()
        self._subscribers[key] = on_jump
        return partial(self._dispose, key)

    def _dispose(self, key: object) -> None:
        self._subscribers.pop(key, None)
        if not self._subscribers and self._tick_handle is not None:
            self._tick_handle.cancel()
            self._tick_handle = None
            _WATCHERS.pop(self._loop, None)  # it holds its loop: kept here, no loop would ever be freed

    def note_armed(self) -> None:
        """A timer is armed by the wall clock of now: if that is off, the next tick tells, even if it is right again."""
        if abs(self._current_offset_s() - self._offset_s) >= JUMP_THRESHOLD_S:
            self._is_armed_off = True

    def _current_offset_s(self) -> float:
        return wall_ms() / 1_000 - self._loop.time()

    def _arm(self) -> None:
        self._tick_handle = self._loop.call_later(WATCH_INTERVAL_S, self._tick)

    def _tick(self) -> None:
        self._arm()
        offset_s = self._current_offset_s()
        if abs(offset_s - self._offset_s) < JUMP_THRESHOLD_S and not self._is_armed_off:
            return
        self._is_armed_off = False
        self._offset_s = offset_s
        for on_jump in tuple(self._subscribers.values()):
            try:
                on_jump()
            except Exception:  # one owner's failure must not keep the news from the others
                _logger.exception("a clock subscriber raised")


_WATCHERS: WeakKeyDictionary[asyncio.AbstractEventLoop, DriftWatcher] = WeakKeyDictionary()
