"""Snapshots: for every place on the charts there is a sentence, and its reason is the edge's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from schedule_sm.core import cursor, snapshot
from schedule_sm.core.cursor import DELIVERY, OWNER, Observers
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.edges import Edge
from schedule_sm.core.projection import Projection
from schedule_sm.core.snapshot import (
    UNCONFIRMED,
    EdgeTaken,
    OwnerSnapshot,
    ReminderSnapshot,
    reminder_snapshots,
    taken,
)
from tests.core import logs

pytestmark = pytest.mark.no_chart_cov  # these tests step charts without an owner

AT = logs.INSTANT_MS
MINUTE = 60_000
HOUR = 60 * MINUTE
LATER = "2026-08-05T12:01:00.000Z"


class Bench:
    """The cursors of a log, without an owner."""

    def __init__(self, *changes: object) -> None:
        self.log = logs.log(*changes)
        self.projection = Projection()
        self.deliveries = Deliveries(self.projection, Observers())

    def fold(self, now_ms: int) -> Bench:
        self.projection.sync(self.log)
        self.deliveries.take_changes(now_ms)
        self.deliveries.after_flush(now_ms)
        return self

    def owner(self, state: str = "waiting", *, last: Edge | None = None, since_ms: int = AT) -> OwnerSnapshot:
        return OwnerSnapshot(state, since_ms, taken(last), reminder_snapshots(self.deliveries))

    def said(self, now_ms: int, id_: str = "a") -> str:
        return self.owner().why(now_ms, id_)[0]


def owner_edge(source: str, event: str) -> Edge:
    edge = OWNER.edge(source, event)
    assert edge is not None
    return edge


def under_admission(now_ms: int = AT) -> Bench:
    return Bench(logs.create("a")).fold(now_ms)


# -- one reminder -------------------------------------------------------------------------------------------


def test_armed_reminder_says_when_it_is_due() -> None:
    bench = Bench(logs.create("a")).fold(AT - 10 * MINUTE)
    assert bench.said(AT - 10 * MINUTE) == f"a is due at {logs.INSTANT}, in 10 min."


def test_target_that_nobody_has_looked_at_is_no_negative_wait() -> None:
    bench = Bench(logs.create("a")).fold(AT - 1)
    assert (
        bench.said(AT + 5_000)
        == f"a was due at {logs.INSTANT}, 5 s ago; the owner has not looked at it since."
    )


def refuse(bench: Bench) -> None:
    bench.deliveries.refused(AT + 1)


def fail_to_queue(bench: Bench) -> None:
    bench.deliveries.enqueue_failed(AT + 1)


def fail_as_host(bench: Bench) -> None:
    bench.deliveries.host_failed(AT + 1)


def leave_unconfirmed(bench: Bench) -> None:
    refuse(bench)
    bench.deliveries.before_flush(AT + 1)
    bench.deliveries.flush_unconfirmed(AT + 1)


def queue_unconfirmed(bench: Bench) -> None:
    bench.deliveries.enqueued(AT + 1)
    bench.deliveries.flush_unconfirmed(AT + 2)


@pytest.mark.parametrize(
    ("happens", "event"),
    [
        (refuse, "refused"),
        (fail_to_queue, "enqueue_failed"),
        (fail_as_host, "host_failed"),
        (leave_unconfirmed, "unconfirmed"),
        (queue_unconfirmed, "dispatch_unconfirmed"),
    ],
)
def test_reason_is_the_edge_s_own(happens: Callable[[Bench], None], event: str) -> None:
    bench = under_admission()
    happens(bench)
    why = next(edge.why for edge in DELIVERY.edges if edge.event == event)
    assert bench.said(AT + MINUTE).endswith(f" ({event}: {why}).")


def test_refused_reminder_says_for_how_long_the_agent_has_kept_it_waiting() -> None:
    bench = under_admission()
    refuse(bench)
    assert bench.said(AT + 4 * MINUTE) == (
        f"a was due at {logs.INSTANT}, 4 min ago; it waits for the agent to be between turns, in this state for 4 min"
        " (refused: the agent is busy; wait for idle)."
    )


def test_setback_that_is_over_is_still_told() -> None:
    bench = under_admission()
    fail_to_queue(bench)
    bench.deliveries.before_flush(AT + MINUTE)
    assert bench.said(AT + MINUTE) == (
        f"a was due at {logs.INSTANT}, 1 min ago; the log is being confirmed, in this state for 0 ms;"
        " last setback: enqueue_failed: framing or followup raised; nothing written."
    )


def test_reminder_that_the_clock_left_behind_says_so() -> None:
    bench = under_admission()
    bench.deliveries.not_due(AT - 3 * HOUR)
    assert bench.said(AT - 3 * HOUR) == f"a is due at {logs.INSTANT}, in 3 h (not_due: the clock went back)."


def test_clock_that_went_back_unseen_yields_no_negative_duration() -> None:
    bench = under_admission()
    refuse(bench)
    said = bench.said(AT - HOUR)
    assert said.startswith(f"a is due at {logs.INSTANT}, in 1 h; the clock has gone back: it waits for")
    assert "-" not in said.removeprefix(f"a is due at {logs.INSTANT}")


@pytest.mark.parametrize("state", [state for state in DELIVERY.states if state not in DELIVERY.finals])
def test_every_place_on_the_delivery_path_has_its_sentence(state: str) -> None:
    for now_ms, last in itertools.product((AT - HOUR, AT, AT + 90_061_000), (None, *DELIVERY.edges)):
        said = ReminderSnapshot("a", state, AT, AT, taken(last)).sentence(now_ms)
        assert said.startswith("a ")
        assert said.endswith(".")
        assert "None" not in said
        assert last is None or f"{last.event}: {last.why}" in said


@pytest.mark.parametrize("state", OWNER.states)
def test_every_state_of_the_owner_has_its_sentence(state: str) -> None:
    for last in (None, *OWNER.edges):
        said = OwnerSnapshot(state, AT, taken(last), None).sentence(AT + MINUTE)
        assert said.startswith("The owner ")
        is_reason = last is not None and last.target == state and state != "driving"
        assert said.endswith(f"({last.event}: {last.why})." if last and is_reason else "for 1 min.")


@pytest.mark.parametrize(
    ("ms", "spelt"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_999, "1 min 1 s"),
        (HOUR, "1 h"),
        (HOUR + 1_000, "1 h"),
        (24 * HOUR + 30 * MINUTE, "1 d"),
        (25 * HOUR, "1 d 1 h"),
        (400 * 24 * HOUR, "400 d"),
    ],
)
def test_duration_is_spelt_in_two_neighbouring_units(ms: int, spelt: str) -> None:
    assert snapshot._spell(ms) == spelt


@pytest.mark.parametrize("id_", ["a\nERROR forged", "lone \ud800 surrogate", "nul \0"])
def test_foreign_id_cannot_spoil_a_sentence(id_: str) -> None:
    said = ReminderSnapshot(id_, "armed", AT, AT, None).sentence(AT)
    assert said.isprintable()
    said.encode()
    assert all(line.isprintable() for line in Bench().fold(AT).owner().why(AT, id_))


# -- why ----------------------------------------------------------------------------------------------------


def test_why_ends_with_the_owner_and_with_what_the_words_are_worth() -> None:
    bench = under_admission()
    refuse(bench)
    said = bench.owner("blocked", last=owner_edge("driving", "refused")).why(AT + MINUTE, "a")
    assert said[1:] == (
        "The owner waits for the agent to become idle, in this state for 1 min"
        " (refused: admission refused; one idle wait open).",
        UNCONFIRMED,
    )


def test_reminder_behind_another_names_the_one_that_goes_first_and_why_that_one_waits() -> None:
    bench = Bench(logs.create("b", at=LATER), logs.create("a")).fold(AT)
    refuse(bench)
    bench.deliveries.before_flush(AT + MINUTE)
    said = bench.owner("blocked").why(AT + 2 * MINUTE, "b")
    assert said[0].startswith(f"b was due at {LATER}, 1 min ago; it waits for its turn to be tried")
    assert said[1] == "a goes first, and one is delivered at a time."
    assert said[2].startswith("a was due at")
    assert len(bench.owner().why(AT, "b")) == 3, "not due yet: nothing else holds it up"


def test_queued_reminder_holds_nobody_back_and_is_behind_nobody() -> None:
    bench = Bench(logs.create("a"), logs.create("b", at=LATER)).fold(AT)
    bench.deliveries.enqueued(AT)
    assert len(bench.owner().why(AT + HOUR, "a")) == 3
    assert len(bench.owner().why(AT + HOUR, "b")) == 3


def test_why_without_an_id_goes_through_all_in_order_of_their_targets() -> None:
    bench = Bench(logs.create("late", at=LATER), logs.create("early"), logs.create("tie")).fold(AT - 1)
    said = bench.owner().why(AT - 1)
    assert [sentence.split(" ", 1)[0] for sentence in said[:-2]] == ["early", "tie", "late"]


def test_nothing_known_yet_is_not_the_same_as_nothing() -> None:
    bench = Bench(logs.create("a"))
    assert bench.owner("parked").reminders is None
    assert bench.owner("parked").why(AT, "a")[0].startswith("Nothing is known of the reminders yet")
    assert bench.owner("parked").why(AT)[0].startswith("Nothing is known of the reminders yet")
    empty = Bench().fold(AT)
    assert empty.owner("empty").reminders == ()
    assert empty.owner("empty").why(AT)[0] == "No reminder is active."
    assert empty.owner("empty").why(AT, "a")[0].startswith("a is not active")


def test_faulted_owner_says_that_the_log_keeps_what_it_no_longer_tracks() -> None:
    bench = under_admission()
    bench.deliveries.detach(AT)
    said = bench.owner("faulted", last=owner_edge("driving", "corrupt")).why(AT + HOUR, "a")
    detach = next(edge.why for edge in DELIVERY.edges if edge.event == "detach")
    assert said[0] == f"The owner keeps track of no reminder any more ({detach})."
    assert "resume the session" in said[1]
    assert "(corrupt: the log cannot be folded)" in said[1]


def test_wake_is_no_reason_for_not_coming() -> None:
    bench = under_admission()
    assert "wake" not in bench.owner("driving", last=owner_edge("parked", "wake")).sentence(AT)


def test_snapshot_stays_as_it_was_taken() -> None:
    bench = under_admission()
    before = bench.owner()
    refuse(bench)
    assert before.reminders is not None
    assert before.reminders[0].last is None
    assert before != bench.owner()


def test_taken_edge_says_what_the_chart_says() -> None:
    edge = cursor.DELIVERY.edge("queued", "append_failed")
    assert taken(None) is None
    assert taken(edge) == EdgeTaken("append_failed", "fault", edge.why if edge else "", "faulted")
