"""Reading the session's event log: one strict change, the seed length, ownership segments.

Here untrusted data becomes checked values; everything behind this file may trust them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.instants import parse_instant, whole_number
from schedule_sm.core.records import (
    END_SEED,
    SCHEDULE_CHANGE,
    SCHEDULE_CHANGE_VERSION,
    AfterRecord,
    CreateChange,
    DeleteChange,
    DispatchChange,
    check_after_seconds,
    check_id,
    check_prompt,
    checked_record,
)

Event: TypeAlias = Mapping[str, Any]
"""``{"seq": n, "type": str, "time": epoch_ms, "data": …}``."""

EventLog: TypeAlias = Sequence[Event]

_CREATE_KEYS = {"version", "operation", "schedule"}
_END_KEYS = {"version", "operation", "id"}
_RECORD_KEYS = {"id", "kind", "prompt", "afterSeconds", "scheduledAt"}


class AppendOnlyLog(Sequence[Event]):
    """A log that never loses or changes an event and tells an event's type without decoding it.

    A projection asks it for what it needs alone, and trusts that what was read still stands.
    """

    @abstractmethod
    def type_at(self, seq: int) -> str:
        """Return the type of the event at ``seq``."""

    @abstractmethod
    def data_at(self, seq: int) -> Any:
        """Return the data of the event at ``seq``."""


class Change(NamedTuple):
    """One checked change, small enough to fold a hundred thousand of them."""

    operation: Literal["create", "delete", "dispatch"]
    id: str
    prompt: str = ""
    after_seconds: int = 0
    scheduled_at: str = ""
    target_ms: int = 0


def read_change(data: object) -> Change:
    """Return the checked change in ``data``, the ``data`` of one ``schedule/change`` event.

    Raises:
        ScheduleVersionError: for a whole version number above 1; it is looked at before anything else.
        ScheduleLogError: for anything else that is not exactly one of the three changes.
    """
    if type(data) is not dict and not isinstance(data, Mapping):  # the first is by far the cheaper test
        _refuse("a change must be an object")
    version = data.get("version")
    if type(version) is not int:
        version = whole_number(version)
    if version != SCHEDULE_CHANGE_VERSION:
        if version is not None and version > SCHEDULE_CHANGE_VERSION:
            msg = f"version {version} was written by a newer release; upgrade schedule-sm to read this log"
            raise ScheduleVersionError(msg)
        _refuse("version must be the number 1")
    try:
        return _read_operation(data)
    except ValueError as error:
        raise ScheduleLogError(str(error)) from error


def _read_operation(data: Mapping[str, Any]) -> Change:
    operation = data.get("operation")
    if operation == "create":
        if data.keys() != _CREATE_KEYS:
            _refuse_keys(_CREATE_KEYS)
        return _read_record(data["schedule"])
    if operation == "delete" or operation == "dispatch":
        if data.keys() != _END_KEYS:
            _refuse_keys(_END_KEYS)
        return Change(operation, check_id(data["id"]))
    msg = "operation must be create, delete or dispatch"
    raise ScheduleLogError(msg)


def _read_record(record: object) -> Change:
    if type(record) is not dict and not isinstance(record, Mapping):
        _refuse("schedule must be an object")
    if record.keys() != _RECORD_KEYS:
        _refuse_keys(_RECORD_KEYS)
    if record["kind"] != "after":
        _refuse("kind must be after")
    scheduled_at = record["scheduledAt"]
    if not isinstance(scheduled_at, str):
        _refuse("scheduledAt must be text")
    return Change(
        "create",
        check_id(record["id"]),
        check_prompt(record["prompt"]),
        check_after_seconds(record["afterSeconds"]),
        scheduled_at,
        parse_instant(scheduled_at),
    )


def _refuse_keys(keys: set[str]) -> NoReturn:
    _refuse(f"the keys must be exactly {', '.join(sorted(keys))}")


def _refuse(reason: str) -> NoReturn:
    raise ScheduleLogError(reason)


def decode_schedule_change(data: object) -> CreateChange | DeleteChange | DispatchChange:
    """Return the model of one change (``data`` of a ``schedule/change`` event), strictly decoded.

    Raises:
        ScheduleVersionError: for a later protocol version.
        ScheduleLogError: for any other departure from the format.
    """
    change = read_change(data)
    if change.operation == "create":
        record = checked_record(change.id, change.prompt, change.after_seconds, change.scheduled_at)
        return CreateChange.model_construct(version=1, operation="create", schedule=record)
    if change.operation == "delete":
        return DeleteChange.model_construct(version=1, operation="delete", id=change.id)
    return DispatchChange.model_construct(version=1, operation="dispatch", id=change.id)


def create_data(record: AfterRecord) -> dict[str, Any]:
    """Return the canonical ``data`` of a create."""
    return {
        "version": SCHEDULE_CHANGE_VERSION,
        "operation": "create",
        "schedule": {
            "id": record.id,
            "kind": "after",
            "prompt": record.prompt,
            "afterSeconds": record.after_seconds,
            "scheduledAt": record.scheduled_at,
        },
    }


def end_data(operation: Literal["delete", "dispatch"], schedule_id: str) -> dict[str, Any]:
    """Return the canonical ``data`` of a delete or a dispatch."""
    return {"version": SCHEDULE_CHANGE_VERSION, "operation": operation, "id": schedule_id}


def read_changes(events: EventLog, start: int, end: int) -> Iterator[Change | None]:
    """Yield for each event from ``start`` to ``end`` its checked change, or ``None`` for one of another type.

    Raises:
        ScheduleLogError: where an event is none, or a change cannot be read; what was yielded before stands.
    """
    if isinstance(events, AppendOnlyLog):
        type_at, data_at = events.type_at, events.data_at
        for seq in range(start, end):
            yield read_change(data_at(seq)) if type_at(seq) == SCHEDULE_CHANGE else None
        return
    for seq in range(start, end):
        event = events[seq]
        yield read_change(event.get("data")) if event_type(event) == SCHEDULE_CHANGE else None


def event_type(event: object) -> object:
    """Return the ``type`` of an event; raise ScheduleLogError for what is no event at all."""
    if type(event) is not dict and not isinstance(event, Mapping):
        _refuse("an event must be an object")
    return event.get("type")


def check_position(value: object, length: int, *, what: str) -> int:
    """Return ``value`` as a position from 0 to ``length``; raise ScheduleLogError otherwise."""
    position = whole_number(value)
    if position is None or not 0 <= position <= length:
        msg = f"{what} must be a whole number from 0 to {length}, not {value!r}"
        raise ScheduleLogError(msg)
    return position


def segment_start(events: EventLog, dispatch_seq: int, seed_length: int) -> int:
    """Return where the ownership segment of the event at ``dispatch_seq`` begins.

    An event that the session owns: ``seed_length``. An inherited one: after the nearest preceding
    ``session/end-seed``, or 0. O(distance to that marker).
    """
    if dispatch_seq >= seed_length:
        return seed_length
    for position in range(dispatch_seq - 1, -1, -1):
        if event_type(events[position]) == END_SEED:
            return position + 1
    return 0
