"""The receipt of one dispatch, for a UI that shows which reminder a message came from."""

from __future__ import annotations

from schedule_sm.core.changes import Entry
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import EventLog, check_position, event_type, read_change, segment_start
from schedule_sm.core.fields import DELIVERY_MODE, SCHEDULE_CHANGE
from schedule_sm.core.instants import whole_number
from schedule_sm.core.projection import Projection
from schedule_sm.core.records import ReminderReceipt


def schedule_reminder_presentation(
    events: EventLog, dispatch_seq: object, seed_length: object = 0
) -> ReminderReceipt | None:
    """Return the receipt of the dispatch at ``dispatch_seq``, or ``None`` if that event is no dispatch.

    The dispatch is paired with the active create of its own ownership segment, so nested forks may reuse ids.
    O(length of that segment).

    Raises:
        ScheduleLogError: if a position is out of range, the event's own ``seq`` is not its position, its segment
            cannot be folded, or no active create belongs to it.
    """
    seed = check_position(seed_length, len(events), what="seed length")
    seq = check_position(dispatch_seq, len(events) - 1, what="dispatch seq")
    event = events[seq]
    kind = event_type(event)
    if whole_number(event.get("seq")) != seq:
        msg = f"its own seq is {event.get('seq')!r}"
        raise ScheduleLogError(msg, seq=seq)
    if kind != SCHEDULE_CHANGE:
        return None
    try:
        change = read_change(event.get("data"))
    except ScheduleLogError as error:
        raise error.located(seq=seq) from error
    if isinstance(change, Entry) or change.operation != "dispatch":
        return None
    segment = Projection(segment_start(events, seq, seed))
    segment.sync(events, seq)
    entry = segment.active.get(change.id)
    if entry is None:
        msg = f"dispatch of {change.id!r}, which is not active"
        raise ScheduleLogError(msg, seq=seq)
    return ReminderReceipt.model_construct(
        schedule_id=entry.id,
        prompt=entry.prompt,
        occurrence_at=entry.scheduled_at,
        delivery_mode=DELIVERY_MODE,
    )
