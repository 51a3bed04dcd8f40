"""The cursors of one owner's active reminders, and the rules by which they change.

The owner reports what happened (a flush, a clock reading, a host's answer); which cursor takes which step is decided
here and nowhere else. At most one reminder is on its way to admission, at most one is queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedule_sm.core.charts import DeliveryEvent
from schedule_sm.core.cursor import DELIVERY, Cursor, Observers
from schedule_sm.core.projection import ChangeReader, Ended, Entry, Projection
from schedule_sm.core.rank_heap import RankHeap


class Delivery(Cursor):
    """One active reminder's cursor with its index entry."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry, now_ms: int, observers: Observers) -> None:
        """Arm the reminder of ``entry``."""
        super().__init__(DELIVERY, entry.id, now_ms, observers)
        self.entry = entry


class Deliveries:
    """Every non-final cursor of one owner; each report costs O(log n) per reminder that it moves."""

    def __init__(self, projection: Projection, observers: Observers) -> None:
        """Read changes of ``projection`` from a position of its own."""
        self._projection = projection
        self._reader: ChangeReader = projection.open_reader()
        self._observers = observers
        by_id: dict[str, Delivery] = {}
        self._by_id = by_id
        self._armed = RankHeap(lambda id_: id_ in by_id and by_id[id_].state == "armed")
        self._overdue = RankHeap(lambda id_: id_ in by_id and by_id[id_].state == "overdue")
        self._candidate: Delivery | None = None
        self._queued: Delivery | None = None
        self._latest_ms: int | None = None
        self._clock_went_back = False
        self.is_folded = False
        """Whether a confirmed fold was ever taken in."""

    def __iter__(self) -> Iterator[Delivery]:
        """Iterate over the non-final cursors in create order."""
        return iter(self._by_id.values())

    def __len__(self) -> int:
        """How many reminders have a cursor."""
        return len(self._by_id)

    def get(self, schedule_id: str) -> Delivery | None:
        """Return the cursor of an active reminder."""
        return self._by_id.get(schedule_id)

    # -- a drive's preflight --------------------------------------------------------------------------------

    def before_flush(self, now_ms: int | None) -> None:
        """Step ``due`` for each passed target, then send the earliest to its checkpoint.

        Decided from what the last sync knew. ``None`` for a clock that could not be read: nothing falls due.
        """
        if now_ms is not None:
            self._read(now_ms)
            while (first := self._armed.first()) is not None and first[0] <= now_ms:
                self._first_falls_due(now_ms)
        at_ms = self._now(now_ms)
        if self._candidate is None:
            self._send_first(at_ms)
        else:
            self._step(self._candidate, "recheck", at_ms)

    def flush_unconfirmed(self, now_ms: int | None) -> None:
        """A preflight or a barrier was not confirmed."""
        at_ms = self._now(now_ms)
        self._settle_queued("dispatch_unconfirmed", at_ms)
        self._release_candidate("unconfirmed", at_ms)

    def flush_confirmed(self, now_ms: int | None) -> None:
        """A preflight or a barrier was confirmed: the queued dispatch is durable."""
        self._settle_queued("dispatch_confirmed", self._now(now_ms))

    def take_changes(self, now_ms: int | None) -> None:
        """Take in what the projection consumed since the last call; each change ends or makes a cursor."""
        at_ms = self._now(now_ms)
        changes = self._reader.take()
        self.is_folded = True
        if changes is None:
            self._detach(at_ms)
            self._arm(self._projection, at_ms)
            return
        created: dict[str, Entry] = {}
        for change in changes:
            if isinstance(change, Entry):
                created[change.id] = change
            elif created.pop(change.id, None) is None:
                self._end(change, at_ms)
        self._arm(created.values(), at_ms)

    def after_flush(self, now_ms: int) -> None:
        """After a confirmed flush and its fold: put right what the clock or an earlier target undid.

        Then the candidate, if due, takes what it lacks of ``due``, ``checkpoint`` and ``confirmed``.
        """
        self._read(now_ms)
        if self._clock_went_back:
            self._clock_went_back = False
            self._put_back(now_ms)
        earliest = self._projection.earliest()
        if self._candidate is not None and (earliest is None or self._candidate.entry is not earliest):
            self._release_candidate("overtaken", now_ms)
        if earliest is None or now_ms < earliest.target_ms:
            return
        delivery = self._by_id[earliest.id]
        if delivery.state == "armed":
            self._first_falls_due(now_ms)
        if delivery.state == "overdue":
            self._send_first(now_ms)
        self._step(delivery, "confirmed", now_ms)

    # -- under admission ------------------------------------------------------------------------------------

    def refused(self, now_ms: int | None) -> None:
        """Admission was refused; the candidate keeps its place."""
        if self._candidate is not None:
            self._step(self._candidate, "refused", self._now(now_ms))

    def not_due(self, now_ms: int) -> None:
        """Under admission the clock read less than the candidate's target."""
        self._read(now_ms)
        self._release_candidate("not_due", now_ms)

    def host_failed(self, now_ms: int | None) -> None:
        """The clock, the registry or the reservation raised."""
        if self._candidate is not None and self._candidate.can("host_failed"):
            self._release_candidate("host_failed", self._now(now_ms))

    def enqueue_failed(self, now_ms: int | None) -> None:
        """Framing or followup raised."""
        self._release_candidate("enqueue_failed", self._now(now_ms))

    def enqueued(self, now_ms: int | None) -> None:
        """Followup accepted the candidate's message."""
        self._queued = self._candidate
        self._release_candidate("enqueued", self._now(now_ms))

    def append_failed(self, now_ms: int | None) -> None:
        """The queued message's dispatch could not be recorded."""
        if self._queued is not None:
            self._drop(self._queued, "append_failed", self._now(now_ms))
            self._queued = None

    # -- the end --------------------------------------------------------------------------------------------

    def detach(self, now_ms: int | None) -> None:
        """The owner stops: every cursor detaches, the log keeps the reminders."""
        self._detach(self._now(now_ms))
        self._reader.close()

    # -- inside ---------------------------------------------------------------------------------------------

    def _now(self, now_ms: int | None) -> int:
        return now_ms if now_ms is not None else (self._latest_ms or 0)

    def _read(self, now_ms: int) -> None:
        if self._latest_ms is not None and now_ms < self._latest_ms:
            self._clock_went_back = True
        self._latest_ms = now_ms

    def _step(self, delivery: Delivery, event: DeliveryEvent, now_ms: int) -> None:
        delivery.step(event, now_ms)

    def _arm(self, entries: Iterable[Entry], now_ms: int) -> None:
        for entry in entries:
            self._by_id[entry.id] = Delivery(entry, now_ms, self._observers)
            self._armed.push(entry.rank)

    def _first_falls_due(self, now_ms: int) -> None:
        rank = self._armed.pop()
        if rank is not None:
            self._step(self._by_id[rank[2]], "due", now_ms)
            self._overdue.push(rank)

    def _send_first(self, now_ms: int) -> None:
        """Send the earliest overdue one, if any, to its checkpoint: it is the candidate from now on."""
        rank = self._overdue.pop()
        if rank is not None:
            self._candidate = self._by_id[rank[2]]
            self._step(self._candidate, "checkpoint", now_ms)

    def _release_candidate(self, event: DeliveryEvent, now_ms: int) -> None:
        if self._candidate is not None:
            delivery, self._candidate = self._candidate, None
            self._step(delivery, event, now_ms)
            if delivery.state == "overdue":
                self._overdue.push(delivery.entry.rank)
            elif delivery.state == "armed":
                self._armed.push(delivery.entry.rank)

    def _settle_queued(self, event: DeliveryEvent, now_ms: int) -> None:
        if self._queued is not None:
            self._step(self._queued, event, now_ms)
            if self._queued.is_final:
                self._by_id.pop(self._queued.subject_id, None)
                self._queued = None

    def _drop(self, delivery: Delivery, event: DeliveryEvent, now_ms: int) -> None:
        if self._candidate is delivery:
            self._candidate = None
        self._by_id.pop(delivery.subject_id, None)
        self._armed.compact(len(self._by_id))
        self._overdue.compact(len(self._by_id))
        self._step(delivery, event, now_ms)

    def _end(self, change: Ended, now_ms: int) -> None:
        delivery = self._by_id.get(change.id)
        if delivery is None or delivery is self._queued:
            return  # our own dispatch, folded right after its append
        self._drop(delivery, "delete" if change.operation == "delete" else "dispatched_elsewhere", now_ms)

    def _put_back(self, now_ms: int) -> None:
        """Arm again what was due before the clock went back; O(overdue), only after a rollback."""
        if self._candidate is not None and self._candidate.entry.target_ms > now_ms:
            self._release_candidate("not_due", now_ms)
        for rank in self._overdue.take_after(now_ms):
            self._step(self._by_id[rank[2]], "not_due", now_ms)
            self._armed.push(rank)

    def _detach(self, now_ms: int) -> None:
        self._candidate = self._queued = None
        self._armed.clear()
        self._overdue.clear()
        for delivery in tuple(self._by_id.values()):
            self._drop(delivery, "detach", now_ms)
