"""The heap that drops late what no longer counts."""

from __future__ import annotations

from schedule_sm.core.cursor import Observers
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.projection import Projection
from schedule_sm.core.rank_heap import RankHeap
from tests.core.logs import INSTANT_MS, create, delete, log

FAR = "2027-01-01T00:00:00.000Z"


def test_what_no_longer_counts_is_skipped() -> None:
    counting = {"a", "b", "c"}
    heap = RankHeap(counting.__contains__)
    for order, id_ in enumerate("cab"):
        heap.push((5, order, id_))
    counting.discard("c")
    assert heap.first() == (5, 1, "a")
    assert [heap.pop(), heap.pop(), heap.pop(), heap.first()] == [(5, 1, "a"), (5, 2, "b"), None, None]


def test_what_lies_ahead_is_taken_out_in_order() -> None:
    heap = RankHeap(lambda id_: id_ != "gone")
    for rank in [(9, 0, "d"), (3, 1, "a"), (7, 2, "c"), (8, 3, "gone"), (5, 4, "b")]:
        heap.push(rank)
    assert heap.take_after(5) == [(7, 2, "c"), (9, 0, "d")]
    assert [heap.pop(), heap.pop(), heap.pop()] == [(3, 1, "a"), (5, 4, "b"), None]


def test_heaps_of_an_owner_stay_small_while_reminders_come_and_go() -> None:
    events = log(create("stays", at=FAR))
    projection = Projection()
    deliveries = Deliveries(projection, Observers())
    for number in range(1_000):
        for change in (create(f"r{number}", at=FAR), delete(f"r{number}")):
            events.append({"seq": len(events), "type": "schedule/change", "time": 0, "data": change})
            projection.sync(events)
            deliveries.take_changes(INSTANT_MS)
    assert len(deliveries._armed) <= 65


def test_retries_leave_nothing_behind() -> None:
    projection = Projection()
    projection.sync(log(create("a"), create("b")))
    deliveries = Deliveries(projection, Observers())
    deliveries.take_changes(INSTANT_MS)
    for _ in range(100):
        deliveries.before_flush(INSTANT_MS)
        deliveries.flush_unconfirmed(INSTANT_MS)
        deliveries.before_flush(INSTANT_MS)
        deliveries.after_flush(INSTANT_MS)
        deliveries.enqueue_failed(INSTANT_MS)
    assert (len(deliveries._armed), len(deliveries._overdue)) == (0, 2)
