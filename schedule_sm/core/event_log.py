"""Reading the session's event log: one strict change, the seed length, ownership segments.

Here untrusted data becomes checked values; everything behind this file may trust them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from schedule_sm.core.changes import Change, Ended, Entry
from schedule_sm.core.errors import ScheduleLogError, ScheduleVersionError
from schedule_sm.core.fields import (
    END_SEED,
    SCHEDULE_CHANGE,
    SCHEDULE_CHANGE_VERSION,
    check_after_seconds,
    check_id,
    check_instant,
    check_prompt,
)
from schedule_sm.core.instants import whole_number

if TYPE_CHECKING:
    from schedule_sm.core.records import AfterRecord

Event: TypeAlias = Mapping[str, Any]
"""``{"seq": n, "type": str, "time": epoch_ms, "data": …}``."""

EventLog: TypeAlias = Sequence[Event]

_RECORD_KEYS: Final = ("afterSeconds", "id", "kind", "prompt", "scheduledAt")


class AppendOnlyLog(Sequence[Event]):
    """A log that never loses or changes an event and finds those of one type without touching the others.

    A projection asks it for what it needs alone, and trusts that what was read still stands.
    """

    @abstractmethod
    def seqs_of(self, type: str, start: int, end: int, most: int | None = None) -> Sequence[int]:  # noqa: A002 - the event's own field name
        """Return where events of ``type`` stand from ``start`` to ``end``, at most ``most``; O(log n + found)."""

    @abstractmethod
    def data_of(self, seqs: Sequence[int]) -> Iterable[Any]:
        """Iterate over fresh copies of the data of the events at ``seqs``.

        Raises:
            ScheduleLogError: with its seq, when it is the turn of an event whose data cannot be read.
        """

    def changes_of(self, seqs: Sequence[int]) -> Iterable[Change]:
        """Iterate over the checked changes at ``seqs``; raises as ``checked_changes`` does."""
        return checked_changes(seqs, self.data_of(seqs))


def checked_changes(seqs: Sequence[int], data: Iterable[object]) -> Iterator[Change]:
    """Yield the checked change in the ``data`` of each event.

    Raises:
        ScheduleLogError: with its seq, when it is the turn of an event that is no change or cannot be read.
    """
    for seq, each in zip(seqs, data, strict=True):
        try:
            yield read_change(each)
        except ScheduleLogError as error:
            raise error.located(seq=seq) from error


def read_change(data: object) -> Change:
    """Return the checked change in ``data``, the ``data`` of one ``schedule/change`` event.

    Raises:
        ScheduleVersionError: for a whole version number above 1; it is looked at before anything else.
        ScheduleLogError: for anything else that is not exactly one of the three changes.
    """
    if type(data) is not dict and not isinstance(data, Mapping):  # the first is by far the cheaper test
        _refuse("a change must be an object")
    version = data.get("version")
    if type(version) is not int or version != SCHEDULE_CHANGE_VERSION:
        _check_version(version)
    try:
        return _read_operation(data)
    except ValueError as error:
        raise ScheduleLogError(str(error)) from error


def _check_version(value: object) -> None:
    version = whole_number(value)
    if version is not None and version > SCHEDULE_CHANGE_VERSION:
        msg = (
            f"version {_shown(version)} was written by a newer release; upgrade schedule-sm to read this log"
        )
        raise ScheduleVersionError(msg)
    if version != SCHEDULE_CHANGE_VERSION:
        _refuse("version must be the number 1")


def _read_operation(data: Mapping[str, Any]) -> Change:
    # that version and operation are among the keys is known once their values are, so the number says the rest
    operation = data.get("operation")
    if operation == "create":
        if len(data) != 3 or "schedule" not in data:
            _refuse_keys("operation", "schedule", "version")
        return _read_record(data["schedule"])
    if operation == "delete" or operation == "dispatch":
        if len(data) != 3 or "id" not in data:
            _refuse_keys("id", "operation", "version")
        return Ended(operation, check_id(data["id"]))
    msg = "operation must be create, delete or dispatch"
    raise ScheduleLogError(msg)


def _read_record(record: object) -> Entry:
    if type(record) is not dict and not isinstance(record, Mapping):
        _refuse("schedule must be an object")
    try:
        kind, seconds = record["kind"], record["afterSeconds"]
        schedule_id, prompt, scheduled_at = record["id"], record["prompt"], record["scheduledAt"]
    except KeyError:
        _refuse_keys(*_RECORD_KEYS)
    if len(record) != len(_RECORD_KEYS):
        _refuse_keys(*_RECORD_KEYS)
    if kind != "after":
        _refuse("kind must be after")
    return Entry(
        check_id(schedule_id), check_prompt(prompt), check_after_seconds(seconds), check_instant(scheduled_at)
    )


def _refuse_keys(*keys: str) -> NoReturn:
    _refuse(f"the keys must be exactly {', '.join(sorted(keys))}")


def _refuse(reason: str) -> NoReturn:
    raise ScheduleLogError(reason)


def create_data(record: AfterRecord | Entry) -> dict[str, Any]:
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


def read_changes(events: EventLog, start: int) -> Iterator[Change]:
    """Yield the checked change of each ``schedule/change`` from ``start`` on.

    Raises:
        ScheduleLogError: where an event is none, or a change cannot be read.
    """
    length = len(events)
    if isinstance(events, AppendOnlyLog):
        yield from events.changes_of(events.seqs_of(SCHEDULE_CHANGE, start, length))
        return
    for seq in range(start, length):
        event = events[seq]
        if event_type(event) == SCHEDULE_CHANGE:
            yield read_change(event.get("data"))


def event_type(event: object) -> object:
    """Return the ``type`` of an event; raise ScheduleLogError for what is no event at all."""
    if type(event) is not dict and not isinstance(event, Mapping):
        _refuse("an event must be an object")
    return event.get("type")


def check_position(value: object, length: int, *, what: str) -> int:
    """Return ``value`` as a position from 0 to ``length``; raise ScheduleLogError otherwise."""
    position = whole_number(value)
    if position is None or not 0 <= position <= length:
        msg = f"{what} must be a whole number from 0 to {length}, not {_shown(value)}"
        raise ScheduleLogError(msg)
    return position


def _shown(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes out no integer that is so long
        return "a number of thousands of digits"


def segment_start(events: EventLog, dispatch_seq: int, seed_length: int) -> int:
    """Return where the ownership segment of the event at ``dispatch_seq`` begins.

    An event that the session owns: ``seed_length``. An inherited one: after the nearest preceding
    ``session/end-seed``, or 0. O(distance to that marker).
    """
    if dispatch_seq >= seed_length:
        return seed_length
    if isinstance(events, AppendOnlyLog):
        markers = events.seqs_of(END_SEED, 0, dispatch_seq)
        return markers[-1] + 1 if markers else 0
    for position in range(dispatch_seq - 1, -1, -1):
        if event_type(events[position]) == END_SEED:
            return position + 1
    return 0
