"""The receipts of dispatches, for a UI that shows which reminder a message came from."""

from __future__ import annotations

from schedule_sm.core.changes import Entry
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import EventLog, check_position, event_type, read_change, segment_start
from schedule_sm.core.fields import DELIVERY_MODE, SCHEDULE_CHANGE
from schedule_sm.core.instants import whole_number
from schedule_sm.core.projection import Projection
from schedule_sm.core.records import ReminderReceipt


class ReminderReceipts:
    """The receipts of one log's dispatches; asked for in the order of their places, no event is folded twice."""

    def __init__(self, events: EventLog, seed_length: object = 0) -> None:
        """Read ``events``, which may grow meanwhile; the first ``seed_length`` of them were inherited.

        Raises:
            ScheduleLogError: if ``seed_length`` is out of range.
        """
        self._events = events
        self._seed_length = check_position(seed_length, len(events), what="seed length")
        self._start = self._end = -1
        self._segment = Projection()

    def at(self, dispatch_seq: object) -> ReminderReceipt | None:
        """Return the receipt of the dispatch at ``dispatch_seq``, or ``None`` if that event is no dispatch.

        The dispatch is paired with the active create of its own ownership segment, so nested forks may reuse ids.
        O(events of that segment since the place asked for last), or since its beginning if that lies behind. In what a
        fork inherited, a plain list is also looked through back to the beginning of the segment.

        Raises:
            ScheduleLogError: if the place is out of range, the event's own ``seq`` is not its position, its segment
                cannot be folded, or no active create belongs to it.
        """
        events = self._events
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
        entry = self._folded_to(seq).active.get(change.id)
        if entry is None:
            msg = f"dispatch of {change.id!r}, which is not active"
            raise ScheduleLogError(msg, seq=seq)
        return ReminderReceipt.model_construct(
            schedule_id=entry.id,
            prompt=entry.prompt,
            occurrence_at=entry.scheduled_at,
            delivery_mode=DELIVERY_MODE,
        )

    def _folded_to(self, seq: int) -> Projection:
        start = segment_start(self._events, seq, self._seed_length)
        if start != self._start or seq < self._end:
            self._start, self._segment = start, Projection(start)
        self._end = seq
        self._segment.sync(self._events, seq)
        return self._segment


def schedule_reminder_presentation(
    events: EventLog, dispatch_seq: object, seed_length: object = 0
) -> ReminderReceipt | None:
    """Return the receipt of the dispatch at ``dispatch_seq``, or ``None`` if that event is no dispatch.

    ``ReminderReceipts`` gives those of many. O(length of the dispatch's own segment).

    Raises:
        ScheduleLogError: if a position is out of range, the event's own ``seq`` is not its position, its segment
            cannot be folded, or no active create belongs to it.
    """
    return ReminderReceipts(events, seed_length).at(dispatch_seq)
