"""A checked change of the log: the entry of a reminder that came into being, or the end of one.

Both are slotted and small, because a session may hold 100,000 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from schedule_sm.core.instants import parse_instant
from schedule_sm.core.rank_heap import Rank
from schedule_sm.core.records import AfterRecord, checked_record


class Entry:
    """One reminder as its create states it, and its place among the session's creates."""

    __slots__ = ("_rank", "after_seconds", "id", "order", "prompt", "scheduled_at")

    def __init__(self, id: str, prompt: str, after_seconds: int, scheduled_at: str) -> None:  # noqa: A002 - the record's own field name
        """Hold checked values; whoever folds the create sets ``order`` before the rank is asked for."""
        self.id = id
        self.prompt = prompt
        self.after_seconds = after_seconds
        self.scheduled_at = scheduled_at
        self.order = -1
        self._rank: Rank | None = None

    @property
    def rank(self) -> Rank:
        """Its place in the contract order; found once, since most reminders of a long log have long ended."""
        if self._rank is None:
            self._rank = (parse_instant(self.scheduled_at), self.order, self.id)
        return self._rank

    @property
    def target_ms(self) -> int:
        """The target (epoch ms)."""
        return self.rank[0]

    @property
    def record(self) -> AfterRecord:
        """The durable record this entry stands for."""
        return checked_record(self.id, self.prompt, self.after_seconds, self.scheduled_at)


@dataclass(slots=True)
class Ended:
    """A change that ended a reminder; not frozen, since that would make it three times as dear to build."""

    operation: Literal["delete", "dispatch"]
    id: str


Change: TypeAlias = Entry | Ended
