"""``DueWatch``: tells when what is due or soon due has changed. It decides, delivers and records nothing.

In a session without turns it takes the owner's place behind the tools. Whoever it tells reads again, after a flush of
their own; so an announcement may come once too often, and a reading is never older than the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from schedule_sm.clock import Clock, LoopClock
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.projection import Projection
from schedule_sm.host import Agent
from schedule_sm.target_timer import TargetTimer
from schedule_sm.transaction import shared_session

SOON_MS: Final = 3_600_000
"""How long before its target (ms) a reminder counts as soon due: an hour."""

_Seen: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


class DueWatch:
    """Waits for the next reminder of one session to become soon due, or due; one timer in all."""

    def __init__(self, agent: Agent, on_change: Callable[[], None], *, clock: Clock | None = None) -> None:
        """Watch the reminders of ``agent``'s session; nothing happens before the first ``recompute``."""
        self._shared = shared_session(agent.session)
        self._on_change = on_change
        clock = clock or LoopClock()
        self._timer = TargetTimer(agent, clock, on_ended=self.recompute)
        self._seen: _Seen = ((), ())
        self._unwatch = clock.watch(self.recompute)  # also with no timer armed: the clock may have gone back

    def recompute(self) -> None:
        """Look again; the tools call this right after each confirmed flush. O(active reminders)."""
        try:
            projection = self._shared.fold()
        except ScheduleLogError:  # whoever reads is told so by the tools
            self._timer.cancel()
            return
        now_ms = self._timer.read_clock()
        if now_ms is None:
            return
        seen, next_ms = _look(projection, now_ms)
        if next_ms is None:
            self._timer.cancel()
        else:
            self._timer.arm(next_ms)
        if seen != self._seen:
            self._seen = seen
            self._on_change()

    def close(self) -> None:
        """Tell nothing any more."""
        self._unwatch()
        self._timer.cancel()


def _look(projection: Projection, now_ms: int) -> tuple[_Seen, int | None]:
    """Return the ids that are due and soon due, and when that changes by itself."""
    due, soon, changes = [], [], []
    for entry in projection:
        if now_ms >= entry.target_ms:
            due.append(entry.id)
        elif now_ms >= entry.target_ms - SOON_MS:
            soon.append(entry.id)
            changes.append(entry.target_ms)
        else:
            changes.append(entry.target_ms - SOON_MS)
    return (tuple(due), tuple(soon)), min(changes, default=None)
