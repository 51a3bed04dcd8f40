"""``DueWatch``: tells when what is due or soon due has changed. It decides, delivers and records nothing.

In a session without turns it takes the owner's place behind the tools. Whoever it tells reads again, after a flush of
their own; so an announcement may come once too often, and a reading is never older than the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schedule_sm.clock import LOOP_CLOCK, Clock
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.projection import Projection
from schedule_sm.core.rank_heap import RankHeap
from schedule_sm.host import Agent
from schedule_sm.target_timer import TargetTimer
from schedule_sm.transaction import shared_session

SOON_MS: Final = 3_600_000
"""How long before its target (ms) a reminder counts as soon due: an hour."""


class DueWatch:
    """Waits for the next reminder of one session to become soon due, or due; one timer in all."""

    def __init__(self, agent: Agent, on_change: Callable[[], None], *, clock: Clock | None = None) -> None:
        """Watch the reminders of ``agent``'s session; nothing happens before the first ``recompute``."""
        self._shared = shared_session(agent.session)
        self._on_change = on_change
        clock = clock or LOOP_CLOCK
        self._timer = TargetTimer(agent, clock, on_ended=self.recompute)
        self._stages = _Stages(self._shared.projection)
        self._unwatch = clock.watch(self.recompute)  # also with no timer armed: the clock may have gone back

    def recompute(self) -> None:
        """Look again; the tools call this right after each confirmed flush. O(changes since, times log of active)."""
        try:
            self._shared.fold()
        except ScheduleLogError:  # whoever reads is told so by the tools
            self._timer.cancel()
            return
        now_ms = self._timer.read_clock()
        if now_ms is None:
            return
        is_news = self._stages.look(now_ms)
        next_ms = self._stages.next_ms
        if next_ms is None:
            self._timer.cancel()
        else:
            self._timer.arm(next_ms)
        if is_news:
            self._on_change()

    def close(self) -> None:
        """Tell nothing any more."""
        self._unwatch()
        self._timer.cancel()
        self._stages.close()


class _Stages:
    """Which active reminders are far ahead, soon due and due; each moves on at its time."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._reader = projection.open_reader()
        self._now_ms: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._far = RankHeap(self._is_active)
        self._near = RankHeap(self._is_active)
        self._soon: set[str] = set()
        self._due: set[str] = set()

    def _is_active(self, schedule_id: str) -> bool:
        return schedule_id in self._projection.active

    def look(self, now_ms: int) -> bool:
        """Take in what the projection and the clock say; whether what is soon due or due is another set than before."""
        changes = self._reader.take()
        goes_back = self._now_ms is not None and now_ms < self._now_ms
        self._now_ms = now_ms
        if changes is None or goes_back:
            return self._look_at_all(now_ms)
        is_news = False
        for change in changes:
            entry = self._projection.active.get(change.id)
            if entry is None:  # has ended
                is_news |= change.id in self._soon or change.id in self._due
                self._soon.discard(change.id)
                self._due.discard(change.id)
            else:
                self._far.push(entry.rank)
        return self._move_on(now_ms) or is_news

    def _look_at_all(self, now_ms: int) -> bool:
        """O(active): the first time, when the log was replaced, when the clock went back."""
        before = self._soon, self._due
        self._clear()
        for entry in self._projection:
            self._far.push(entry.rank)
        self._move_on(now_ms)
        return before != (self._soon, self._due)

    def _move_on(self, now_ms: int) -> bool:
        """Move those whose time has come; whether there were any."""
        has_moved = False
        while (rank := self._far.first()) is not None and now_ms >= rank[0] - SOON_MS:
            self._far.pop()
            self._near.push(rank)
            self._soon.add(rank[2])
            has_moved = True
        while (rank := self._near.first()) is not None and now_ms >= rank[0]:
            self._near.pop()
            self._soon.discard(rank[2])
            self._due.add(rank[2])
            has_moved = True
        self._far.compact(len(self._projection.active))
        self._near.compact(len(self._projection.active))
        return has_moved

    @property
    def next_ms(self) -> int | None:
        """When one moves on by itself."""
        far, near = self._far.first(), self._near.first()
        times = [] if far is None else [far[0] - SOON_MS]
        times += [] if near is None else [near[0]]
        return min(times, default=None)

    def close(self) -> None:
        self._reader.close()
