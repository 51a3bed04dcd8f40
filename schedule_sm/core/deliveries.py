"""The cursors of one owner's active reminders, and the rules by which they change.

The owner reports what happened (a flush, a clock reading, a host's answer); which cursor takes which step is decided
here and nowhere else. At most one reminder is on its way to admission, at most one is queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from schedule_sm.core.changes import Change, Ended, Entry
from schedule_sm.core.charts import DeliveryEvent
from schedule_sm.core.cursor import DELIVERY, Cursor, Observers
from schedule_sm.core.projection import ChangeReader, Projection
from schedule_sm.core.rank_heap import Rank, RankHeap

PIECE: Final = 128
"""So many reminders are moved at once at most; between two pieces of a long backlog the event loop gets a turn."""


class Delivery(Cursor):
    """One active reminder's cursor with its index entry."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry, now_ms: int, observers: Observers) -> None:
        """Arm the reminder of ``entry``."""
        super().__init__(DELIVERY, entry.id, now_ms, observers)
        self.entry = entry


class Deliveries:
    """Every non-final cursor of one owner; each report costs O(log n) per reminder that it moves."""

    __slots__ = (
        "_armed",
        "_by_id",
        "_candidate",
        "_clock_went_back",
        "_latest_ms",
        "_observers",
        "_overdue",
        "_projection",
        "_queued",
        "_reader",
        "_untaken",
        "is_folded",
    )

    def __init__(self, projection: Projection, observers: Observers) -> None:
        """Read changes of ``projection`` from a position of its own."""
        self._projection = projection
        self._reader: ChangeReader = projection.open_reader()
        self._observers = observers
        self._by_id: dict[str, Delivery] = {}
        self._armed = RankHeap(self._is_armed)
        self._overdue = RankHeap(self._is_overdue)
        self._candidate: Delivery | None = None
        self._queued: Delivery | None = None
        self._untaken: Iterator[Change] | None = None
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

    def fall_due(self, now_ms: int | None) -> bool:
        """Step ``due`` for passed targets, a piece of them; whether more are left.

        Decided from what the last sync knew. ``None`` for a clock that could not be read: nothing falls due.
        """
        if now_ms is None:
            return False
        self._read(now_ms)
        for _ in range(PIECE):
            rank = self._armed.pop(now_ms)
            if rank is None:
                return False
            self._falls_due(rank, now_ms)
        return True

    def before_flush(self, now_ms: int | None) -> None:
        """Step ``due`` for each passed target that is left, then send the earliest to its checkpoint."""
        while self.fall_due(now_ms):
            pass
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
        while self.take_some(now_ms):
            pass

    def take_some(self, now_ms: int | None) -> bool:
        """Take in a piece of what the projection consumed since the last call; whether more is left."""
        if self._untaken is None and self.is_folded and not self._reader.is_behind:
            return False
        at_ms = self._now(now_ms)
        if self._untaken is None:
            changes: Iterable[Change] | None = self._reader.take()
            if changes is None:
                self._detach(at_ms)
                changes = tuple(self._projection)
            self._untaken = iter(changes)
        piece = tuple(islice(self._untaken, PIECE))
        for change in piece:
            if isinstance(change, Ended):
                self._end(change, at_ms)
            elif self._projection.active.get(change.id) is change:  # and has not ended in the same consume
                self._by_id[change.id] = Delivery(change, at_ms, self._observers)
                self._armed.push(change.rank)
        if len(piece) == PIECE:
            return True
        self._untaken = None
        self.is_folded = True
        return self._reader.is_behind

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
        if delivery.state == "armed" and (rank := self._armed.pop()) is not None:
            self._falls_due(rank, now_ms)
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

    def _is_armed(self, schedule_id: str) -> bool:
        delivery = self._by_id.get(schedule_id)
        return delivery is not None and delivery.state == "armed"

    def _is_overdue(self, schedule_id: str) -> bool:
        delivery = self._by_id.get(schedule_id)
        return delivery is not None and delivery.state == "overdue"

    def _now(self, now_ms: int | None) -> int:
        return now_ms if now_ms is not None else (self._latest_ms or 0)

    def _read(self, now_ms: int) -> None:
        if self._latest_ms is not None and now_ms < self._latest_ms:
            self._clock_went_back = True
        self._latest_ms = now_ms

    def _step(self, delivery: Delivery, event: DeliveryEvent, now_ms: int) -> None:
        delivery.step(event, now_ms)

    def _falls_due(self, rank: Rank, now_ms: int) -> None:
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
