"""The owner's one timer and its readings of the wall clock.

A timer is a hint: one that ends always drives, and the deciding test is ``now >= target``. A jump of the clock re-arms
it by arithmetic; only a target that has passed meanwhile drives.
"""

from __future__ import annotations

from collections.abc import Callable

from schedule_sm.clock import MAX_SEGMENT_MS, Clock, Timer
from schedule_sm.diagnostics import warn
from schedule_sm.host import Agent, Dispose
from schedule_sm.synchronous import synchronous


class TargetTimer:
    """At most one armed timer; nothing here drives, it only calls ``on_ended``."""

    __slots__ = ("_agent", "_clock", "_on_ended", "_timer", "now_ms", "target_ms")

    def __init__(self, agent: Agent, clock: Clock, *, on_ended: Callable[[], None]) -> None:
        """Tell the owner of ``agent`` through ``on_ended`` that its target may have come."""
        self._agent = agent
        self._clock = clock
        self._on_ended = on_ended
        self._timer: Timer | None = None
        self.target_ms: int | None = None
        """What is waited for, while the timer is armed."""
        try:
            self.now_ms = clock.now_ms()
        except Exception:  # noqa: BLE001 - only a snapshot's since_ms depends on it; each drive reports it
            self.now_ms = 0

    def read_clock(self) -> int | None:
        """Return the wall clock in ms and keep it as ``now_ms``, or ``None`` (and a warning) if it cannot be read."""
        try:
            self.now_ms = synchronous(self._clock.now_ms(), "the clock")
        except Exception as error:  # noqa: BLE001 - a host call: the caller steps host_failed
            warn("owner", "the clock cannot be read", self._agent, error)
            return None
        return self.now_ms

    def watch(self) -> Dispose:
        """Re-arm after jumps of the clock until the disposer is called."""
        return self._clock.watch(self._clock_jumped)

    def arm(self, target_ms: int) -> None:
        """Wait from ``now_ms`` for ``target_ms``, in place of what was waited for; a far target in segments."""
        self.cancel()
        self.target_ms = target_ms
        delay_ms = min(max(target_ms - self.now_ms, 0), MAX_SEGMENT_MS)
        self._timer = self._clock.call_later(delay_ms, self._on_ended, since_ms=self.now_ms)

    def cancel(self) -> None:
        """Wait for nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.target_ms = None

    def _clock_jumped(self) -> None:
        if self.target_ms is None:
            return
        now_ms = self.read_clock()
        if now_ms is None or now_ms >= self.target_ms:
            self._on_ended()
        else:
            self.arm(self.target_ms)
