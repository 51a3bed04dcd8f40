"""What a session remembers of the creates of its latest turn, so that a call repeated in it makes no second reminder.

A resumed graph runs a tool again under the turn id and call id that it had. What is remembered is only where to look:
the log says whether the first call's reminder was recorded. Nothing here outlives the process.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from schedule_sm.core.changes import Entry
from schedule_sm.core.event_log import EventLog, read_changes
from schedule_sm.host import Session

CALLS_OF_A_TURN: Final = 64
"""How many creates of one turn are remembered; the oldest goes first."""
SESSIONS: Final = 1_024
"""How many sessions are remembered across a close and another opening; the one opened longest ago goes first."""


@dataclass(frozen=True, slots=True)
class CreateCall:
    """One call of schedule_create; equal to its repetition."""

    turn_id: str
    call_id: str
    prompt: str
    after_seconds: int


class TurnCreates:
    """The creates of one session's latest turn."""

    __slots__ = ("_recorded", "_turn_id")

    def __init__(self) -> None:
        """Remember nothing."""
        self._turn_id: str | None = None
        self._recorded: dict[CreateCall, tuple[Entry, int]] = {}

    def remember(self, call: CreateCall, first: Entry, position: int) -> None:
        """Keep that ``call`` appends ``first`` at ``position`` or later; another turn's calls are forgotten."""
        if call.turn_id != self._turn_id:
            self._turn_id = call.turn_id
            self._recorded.clear()
        self._recorded[call] = (first, position)
        if len(self._recorded) > CALLS_OF_A_TURN:
            del self._recorded[next(iter(self._recorded))]

    def recorded(self, call: CreateCall, events: EventLog) -> Entry | None:
        """Return what the first ``call`` recorded if ``events`` hold it; a repetition costs O(events since)."""
        first, position = self._recorded.get(call, (None, 0))
        if first is None:
            return None
        later = read_changes(events, position)
        return (
            first if any(isinstance(each, Entry) and each.values == first.values for each in later) else None
        )


_KNOWN: OrderedDict[tuple[int, str], TurnCreates] = OrderedDict()


def turn_creates(sessions: object, session: Session) -> TurnCreates:
    """Return what is remembered of ``session``, also from before it was closed.

    One that says when it was created (``created_at``, epoch ms) is known in every host of the process, others within
    the service ``sessions``.
    """
    created_at = getattr(session, "created_at", None)
    key = (id(sessions) if created_at is None else created_at, session.id)
    known = _KNOWN.setdefault(key, TurnCreates())
    _KNOWN.move_to_end(key)
    if len(_KNOWN) > SESSIONS:
        _KNOWN.popitem(last=False)
    return known
