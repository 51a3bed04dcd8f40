"""Everything that can be wrong with one session, found by replaying it: what ``verify`` and ``import`` ask.

The fold policy is the invariant's own; beside it stand what a store promises (an unbroken sequence, the right
``wake_at``) and what the embedded host promises (one message for each reminder).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from schedule_sm.cli.rendering import utc_time
from schedule_sm.cli.replay import Replay, read_body
from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.instants import MAX_INSTANT_MS, MIN_INSTANT_MS
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.inbox import MESSAGE, OWN_TYPES, WITHDRAWN, OwnEvents
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

_NAMED_IDS: Final = 3
"""How many active ids a finding names."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    session: str | None
    seq: int | None
    found: str
    expected: str

    def sentence(self) -> str:
        """Say where it is, what was found and what was expected, on one line."""
        where = "the file" if self.session is None else f"session {self.session!r}"
        if self.seq is not None:
            where += f", event {self.seq}"
        return f"{where}: {self.found}; expected {self.expected}"


def check_session(
    info: SessionInfo, events: Iterable[StoredEvent], *, on_event: Callable[[], object] = lambda: None
) -> Iterator[Finding]:
    """Iterate over what is wrong with a session, given all of its ``events``; O(events).

    After a change that cannot be folded the later ones are not judged: they would be wrong for its sake.
    """
    check = _SessionCheck(info)
    for event in events:
        on_event()
        yield from check.take(event)
    yield from check.end()


class _SessionCheck:
    def __init__(self, info: SessionInfo) -> None:
        self._info = info
        self._log = EncodedLog()
        self._replay = Replay()
        self._own_events = OwnEvents()
        self._reminder_of: dict[str, str] = {}  # by the id of its message, as long as that is not withdrawn
        self._reminders: set[str] = set()  # those that have one
        self._can_fold = True
        self._can_follow = True

    def take(self, event: StoredEvent) -> Iterator[Finding]:
        """Judge one event."""
        seq = len(self._log)
        if event.seq != seq:
            yield self._finding(seq, f"the event has the number {event.seq}", f"{seq}, without a gap")
        is_read = event.type == SCHEDULE_CHANGE or event.type in OWN_TYPES
        self._log.add(event.type, event.time, event.body if is_read else "null")
        if not event.type:
            yield self._finding(seq, "the event's type is empty", "text")
        if not MIN_INSTANT_MS <= event.time <= MAX_INSTANT_MS:
            yield self._finding(
                seq, f"the event's time is {event.time} ms", "an instant of the years 1 to 9999"
            )
        try:
            data = read_body(seq, event.body)
        except ScheduleLogError as error:
            self._can_fold = self._can_follow = False
            yield self._finding(seq, error.reason, "JSON text")
            return
        if event.type == SCHEDULE_CHANGE and self._can_fold and seq >= self._info.seed_length:
            yield from self._fold(seq, data)
        elif event.type in OWN_TYPES and self._can_follow:
            yield from self._follow(seq, event.type, data)

    def end(self) -> Iterator[Finding]:
        """Judge what only the whole log tells."""
        info, count = self._info, len(self._log)
        if count != info.next_seq:
            yield self._finding(None, f"{count} events are there", f"{info.next_seq}")
        if not 0 <= info.seed_length <= count:
            yield self._finding(None, f"the seed length is {info.seed_length}", f"0 to {count}")
        elif self._can_fold and self._can_follow:
            wake_at = replay_wake_at(self._log, info.seed_length)
            if wake_at != info.wake_at:
                found = f"its next wake is {_wake(info.wake_at)}"
                yield self._finding(None, found, f"{_wake(wake_at)} from the replay")

    def _fold(self, seq: int, data: object) -> Iterator[Finding]:
        try:
            self._replay.take(seq, data)
        except ScheduleLogError as error:
            self._can_fold = False
            yield self._finding(seq, error.reason, self._what_folds(error))

    def _what_folds(self, error: ScheduleLogError) -> str:
        if isinstance(error, ScheduleVersionError):
            return "version 1"
        if error.reason.endswith("created a second time"):
            return f"an id that is free, such as {self._replay.projection.allocate_id()!r}"
        if error.reason.endswith("which is not active"):
            active = self._replay.projection.active
            named = ", ".join(repr(schedule_id) for schedule_id in islice(active, _NAMED_IDS))
            more = "" if len(active) <= _NAMED_IDS else f" or {len(active) - _NAMED_IDS} others"
            return f"an active id ({named}{more})" if active else "no such change, as nothing is active"
        return "exactly one create, delete or dispatch of version 1"

    def _follow(self, seq: int, type: str, data: Any) -> Iterator[Finding]:  # noqa: A002 - the event's fields
        fault = self._own_events.fault(seq, type, data)
        if fault is not None:
            self._can_follow = False
            yield self._finding(seq, fault, "what the embedded host writes")
            return
        if seq < self._info.seed_length:
            return
        duplicate = self._note_message(type, data)
        if duplicate is not None:
            yield self._finding(
                seq, f"a second message of reminder {duplicate!r}", "one message for each reminder"
            )

    def _note_message(self, type: str, data: Any) -> str | None:  # noqa: A002 - the event's own fields
        """Keep in step with the inbox; return the reminder that has a second message."""
        if type == WITHDRAWN:
            self._reminders.discard(self._reminder_of.pop(data["id"], ""))
        elif type == MESSAGE:
            schedule_id = data["metadata"].get("schedule_id")
            if isinstance(schedule_id, str):
                if schedule_id in self._reminders:
                    return schedule_id
                self._reminders.add(schedule_id)
                self._reminder_of[data["id"]] = schedule_id
        return None

    def _finding(self, seq: int | None, found: str, expected: str) -> Finding:
        return Finding(self._info.id, seq, found, expected)


def _wake(ms: int | None) -> str:
    if ms is None:
        return "none"
    return "at once" if ms == 0 else utc_time(ms)
