"""A checked change of the log: the entry of a reminder that came into being, or the end of one.

Both are slotted and small, because a session may hold 100,000 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from schedule_sm.core.ecmascript import join_surrogate_pairs, trim
from schedule_sm.core.errors import ScheduleInputError
from schedule_sm.core.fields import check_after_seconds, check_id
from schedule_sm.core.instants import (
    MAX_INSTANT_MS,
    MIN_INSTANT_MS,
    format_instant,
    parse_instant,
    whole_number,
)
from schedule_sm.core.rank_heap import Rank

if TYPE_CHECKING:
    from schedule_sm.core.records import AfterRecord


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
    def values(self) -> tuple[str, str, int, str]:
        """What its create states; two entries of the same create have the same."""
        return self.id, self.prompt, self.after_seconds, self.scheduled_at

    @property
    def record(self) -> AfterRecord:
        """The durable record this entry stands for."""
        from schedule_sm.core.records import checked_record  # not at import: it loads pydantic's models

        return checked_record(*self.values)


@dataclass(slots=True)
class Ended:
    """A change that ended a reminder; not frozen, since that would make it three times as dear to build."""

    operation: Literal["delete", "dispatch"]
    id: str


Change: TypeAlias = Entry | Ended


def new_entry(id: str, prompt: object, after_seconds: object, now_ms: object) -> Entry:  # noqa: A002
    """Return the entry of a reminder ``after_seconds`` from ``now_ms`` (epoch ms), the prompt trimmed.

    Raises:
        ScheduleInputError: the first that applies of ``invalid_prompt``, ``invalid_rule`` and
            ``time_out_of_range`` (also for a clock that reads no whole number).
    """
    text = trim(join_surrogate_pairs(prompt)) if isinstance(prompt, str) else ""
    if not text:
        raise ScheduleInputError("invalid_prompt", "prompt is blank or no text")
    try:
        seconds = check_after_seconds(after_seconds)
        schedule_id = check_id(id)
    except ValueError as error:
        raise ScheduleInputError("invalid_rule", str(error)) from error
    now = whole_number(now_ms)
    target = None if now is None else now + seconds * 1_000
    if target is None or not MIN_INSTANT_MS <= target <= MAX_INSTANT_MS:
        raise ScheduleInputError("time_out_of_range", "the target lies outside the years 1 to 9999")
    return Entry(schedule_id, text, seconds, format_instant(target))
