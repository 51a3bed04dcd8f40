"""What ``inspect`` says of a session: read from its log, never from a running host.

The models here are the ``--json`` form, version 1: fields may be added, none is renamed, removed or given another
meaning without a new version. All instants are canonical UTC (``YYYY-MM-DDTHH:MM:SS.mmmZ``), all durations integer ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from schedule_sm.cli.rendering import utc_time
from schedule_sm.cli.replay import Replay, read_body
from schedule_sm.core.changes import Ended, Entry
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import read_change
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED, has_own_fields
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

READ_TYPES = (SCHEDULE_CHANGE, MESSAGE, TURN_STARTED, TURN_ENDED)
"""The event types that a report is made from."""

ReminderState = Literal["scheduled", "overdue", "dispatched", "deleted"]


class _Report(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, use_attribute_docstrings=True)


class ReminderReport(_Report):
    """One reminder of a session's own log, ended ones too."""

    id: str
    state: ReminderState
    """``overdue`` when the time has come and no dispatch is recorded."""
    prompt: str
    after_seconds: int
    scheduled_at: str
    """The target."""
    created_at: str
    created_seq: int
    ended_at: str | None = None
    """When its dispatch or delete was recorded; ``null`` while it is active."""
    ended_seq: int | None = None
    late_ms: int | None = None
    """Dispatch minus target; while overdue, now minus target; else ``null``."""
    turn: Literal["waiting", "started", "ended"] | None = None
    """Of a dispatched one: where its message stands in an embedded host's inbox, ``null`` for other hosts."""
    target_ms: int = Field(exclude=True)
    created_ms: int = Field(exclude=True)
    ended_ms: int | None = Field(default=None, exclude=True)


class LogFault(_Report):
    """Why a session's log could not be read to its end; ``schedule-sm verify`` says more."""

    seq: int | None
    message: str


class SessionReport(_Report):
    """One session."""

    id: str
    parent: str | None
    """The session it was forked from."""
    seed_length: int
    """How many leading events were inherited; reminders in them belong to the parent and are not listed."""
    events: int
    created_at: str
    created_ms: int = Field(exclude=True)
    wake_at: str | None
    """When it next has something to do; the epoch while a message waits for its turn, ``null`` for nothing."""
    reminders: list[ReminderReport]
    """In create order."""
    error: LogFault | None = None


class StoreReport(_Report):
    """The whole answer of ``inspect --json``."""

    format: Literal["schedule-sm/inspect"] = "schedule-sm/inspect"
    version: Literal[1] = 1
    store: str
    read_at: str
    sessions: list[SessionReport]
    """By id."""

    def as_json(self) -> str:
        """Return it as ASCII JSON: what a terminal could take for a command is escaped."""
        return json.dumps(self.model_dump(mode="python", by_alias=True), indent=2).replace("\x7f", "\\u007f")


def report_session(info: SessionInfo, events: Iterable[StoredEvent], now_ms: int) -> SessionReport:
    """Return the report of one session from its ``events`` behind the seed, of READ_TYPES at least; O(events)."""
    history = _History(now_ms)
    error = None
    try:
        for event in events:
            history.take(event)
    except ScheduleLogError as found:
        error = LogFault(seq=found.seq, message=found.message)
    return SessionReport(
        id=info.id,
        parent=info.parent,
        seed_length=info.seed_length,
        events=info.next_seq,
        created_at=utc_time(info.created_at),
        created_ms=info.created_at,
        wake_at=None if info.wake_at is None else utc_time(info.wake_at),
        reminders=list(history.reminders.values()),
        error=error,
    )


class _History:
    """The reminders so far."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._replay = Replay()
        self._reminder_of: dict[str, ReminderReport] = {}  # by message id
        self.reminders: dict[str, ReminderReport] = {}

    def take(self, event: StoredEvent) -> None:
        """Take in one event.

        Raises:
            ScheduleLogError: with its seq, for a change that cannot be folded.
        """
        data = read_body(event.seq, event.body)
        if event.type != SCHEDULE_CHANGE:
            self._take_message(event.type, data)
            return
        self._replay.take(event.seq, data)
        change = read_change(data)
        if isinstance(change, Entry):
            self._created(change, event)
        else:
            self._ended(change, event)

    def _created(self, change: Entry, event: StoredEvent) -> None:
        is_due = self._now_ms >= change.target_ms
        self.reminders[change.id] = ReminderReport(
            id=change.id,
            state="overdue" if is_due else "scheduled",
            prompt=change.prompt,
            after_seconds=change.after_seconds,
            scheduled_at=change.scheduled_at,
            created_at=utc_time(event.time),
            created_seq=event.seq,
            late_ms=self._now_ms - change.target_ms if is_due else None,
            target_ms=change.target_ms,
            created_ms=event.time,
        )

    def _ended(self, change: Ended, event: StoredEvent) -> None:
        reminder = self.reminders[change.id]
        is_dispatch = change.operation == "dispatch"
        reminder.state = "dispatched" if is_dispatch else "deleted"
        reminder.ended_at, reminder.ended_ms, reminder.ended_seq = utc_time(event.time), event.time, event.seq
        reminder.late_ms = event.time - reminder.target_ms if is_dispatch else None

    def _take_message(self, type: str, data: Any) -> None:  # noqa: A002 - the event's own fields
        """Follow an embedded host's inbox; what has another shape is another host's and is passed over."""
        if not has_own_fields(type, data):
            return
        if type == MESSAGE:
            schedule_id = data["metadata"].get("schedule_id")
            reminder = self.reminders.get(schedule_id) if isinstance(schedule_id, str) else None
            if reminder is not None:
                self._reminder_of[data["id"]] = reminder
                reminder.turn = "waiting"
            return
        reminder = self._reminder_of.get(data["message"])
        if reminder is not None:
            reminder.turn = "started" if type == TURN_STARTED else "ended"
