"""Every edge of both charts, taken by the real owner: the exact steps of each story."""

from __future__ import annotations

import pytest

from schedule_sm.testing import ScriptedHost
from tests.core import logs
from tests.owner.support import (
    CLOCK,
    CORRUPT,
    DEPART,
    DISPOSE,
    TRIGGER,
    BrokenLog,
    appending,
    calls,
    changes,
    create,
    delete,
    dispatch,
    living,
    scripted,
    set_clock,
    stop,
)

pytestmark = pytest.mark.asyncio

DELIVERED = ["due", "checkpoint", "confirmed", "enqueued", "dispatch_confirmed"]


async def test_due_reminder_takes_the_whole_path(steps):
    host = scripted(create(1, 5_000))
    async with living(host):
        assert (host.owner.state, host.armed_ms) == ("waiting", 5_000)
        await host.do({"do": "advance", "ms": 5_000})
        assert host.owner.state == "empty"
    assert steps.of(1) == DELIVERED
    assert steps.owner == ["wake", "wait", "wake", "again", "settle", "stop", "drained"]
    assert calls(host) == [
        "flush", "flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush", "flush",
    ]  # fmt: skip
    assert host.messages[0].metadata == {
        "schedule_id": "schedule-1",
        "occurrence_at": "2026-08-05T12:00:05.000Z",
        "late_ms": 0,
    }


async def test_unconfirmed_preflight_leaves_the_reminder_overdue_until_the_next_trigger(steps):
    host = scripted(create(1, 10), flush=["ok", "reject", "unacknowledged"])
    async with living(host):
        await host.do({"do": "advance", "ms": 10})
        assert host.owner.state == "parked"
        await host.do(TRIGGER)
        assert host.owner.state == "parked"
        await host.do(TRIGGER)
    assert steps.of(1) == ["due", "checkpoint", "unconfirmed", "checkpoint", "unconfirmed", *DELIVERED[1:]]
    assert steps.owner == [
        "wake", "wait", "wake", "unconfirmed", "wake", "unconfirmed", "wake", "again", "settle", "stop", "drained",
    ]  # fmt: skip
    assert host.warnings == ["preflight", "preflight"]


async def test_unconfirmed_barrier_is_settled_by_the_next_preflight(steps):
    host = scripted(create(1), flush=["ok", "reject", "reject"])
    async with living(host):
        assert host.owner.state == "parked"
        await host.do(TRIGGER)
        await host.do(TRIGGER)
        assert host.owner.state == "empty"
    assert steps.of(1) == [
        "due", "checkpoint", "confirmed", "enqueued", "dispatch_unconfirmed", "dispatch_unconfirmed",
        "dispatch_confirmed",
    ]  # fmt: skip
    assert len(host.followups) == 1
    assert host.warnings == ["barrier", "preflight"]


async def test_refused_admission_is_checked_again_once_the_agent_is_idle(steps):
    host = scripted(create(1), reserve=["busy", "busy"])
    async with living(host):
        assert host.owner.state == "blocked"
        await host.do(TRIGGER)
        assert calls(host).count("when_idle") == 1
        await host.do({"do": "idle"})
        assert host.owner.state == "empty"
    assert steps.of(1) == [
        "due", "checkpoint", "confirmed", "refused", "recheck", "confirmed", "refused", "recheck", *DELIVERED[2:],
    ]  # fmt: skip
    assert steps.owner == [
        "wake", "refused", "wake", "refused", "wake", "again", "settle", "stop", "drained",
    ]  # fmt: skip


async def test_failed_idle_wait_parks_and_a_trigger_goes_on(steps):
    host = scripted(create(1), reserve=["busy"])
    async with living(host):
        await host.do({"do": "idle_fail"})
        assert host.owner.state == "parked"
        await host.do(TRIGGER)
    assert steps.owner == ["wake", "refused", "idle_lost", "wake", "again", "settle", "stop", "drained"]
    assert host.warnings == ["idle_wait"]


async def test_clock_that_goes_back_arms_overdue_and_preflighted_reminders_again(steps):
    """``not_due`` from preflight and from overdue: the clock falls back during the preflight flush."""
    host = scripted(create(1, 10), create(2, 20), flush=["ok", {"outcome": "ok", "during": [set_clock(0)]}])
    async with living(host):
        host.clock.wall_ms = CLOCK + 20
        await host.do(TRIGGER)
        assert (host.owner.state, host.armed_ms) == ("waiting", 10)
    assert steps.of(1) == ["due", "checkpoint", "not_due", "detach"]
    assert steps.of(2) == ["due", "not_due", "detach"]
    assert host.followups == []


async def test_clock_that_goes_back_under_admission_is_never_early(steps):
    host = scripted(
        create(1, 10), clock_ms=CLOCK + 10, reserve=[{"outcome": "grant", "during": [set_clock(0)]}]
    )
    async with living(host):
        assert (host.owner.state, host.armed_ms) == ("waiting", 10)
        assert host.followups == []
        await host.do({"do": "advance", "ms": 10})
        assert len(host.followups) == 1
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "not_due", *DELIVERED]
    assert calls(host)[:3] == ["flush", "reserve", "release"]


async def test_earlier_target_that_appears_during_the_flush_overtakes(steps):
    host = scripted(create(1, 10), flush=["ok", {"outcome": "ok", "during": appending(create(2, 5))}])
    async with living(host):
        await host.do({"do": "advance", "ms": 10})
    assert steps.of(1) == ["due", "checkpoint", "overtaken", *DELIVERED[1:]]
    assert steps.of(2) == DELIVERED
    assert changes(host) == ["dispatch schedule-2", "dispatch schedule-1"]


async def test_failing_followup_leaves_the_reminder_overdue_and_those_behind_it_waiting(steps):
    host = scripted(create(1), create(2), followup=["throw"])
    async with living(host):
        assert host.owner.state == "parked"
        assert calls(host) == ["flush", "reserve", "followup schedule-1 threw", "release"]
        await host.do(TRIGGER)
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueue_failed", *DELIVERED[1:]]
    assert steps.of(2) == DELIVERED
    assert changes(host) == ["dispatch schedule-1", "dispatch schedule-2"]
    assert host.warnings == ["followup"]


async def test_failing_dispatch_append_faults_and_detaches_the_others(steps):
    host = scripted(create(1), create(2), create(3, 9_000), append=["throw"])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueued", "append_failed"]
    assert steps.of(2) == ["detach"]
    assert steps.of(3) == ["detach"]
    assert steps.owner == ["wake", "append_failed"]
    assert host.armed_ms is None
    assert calls(host)[-1] == "release"
    await host.owner.wait_stopped()


async def test_corrupt_log_faults_the_owner(steps):
    host = scripted(create(1, 10), flush=["ok", {"outcome": "ok", "during": appending(CORRUPT)}])
    await host.do({"do": "start"})
    await host.do({"do": "advance", "ms": 10})
    assert host.owner.state == "faulted"
    assert steps.of(1) == ["due", "checkpoint", "detach"]
    assert steps.owner == ["wake", "wait", "wake", "corrupt"]
    assert host.warnings == ["corrupt_log"]
    await host.do(TRIGGER)
    assert len(host.trace) == 2


@pytest.mark.parametrize(("end", "event"), [(delete, "delete"), (dispatch, "dispatched_elsewhere")])
class TestRecordThatEndsElsewhere:
    async def test_while_armed(self, steps, end, event):
        host = scripted(create(1, 10))
        async with living(host):
            host.session.write("schedule/change", end(1))
            await host.do(TRIGGER)
            assert (host.owner.state, host.armed_ms) == ("empty", None)
        assert steps.of(1) == [event]

    async def test_while_overdue_behind_another(self, steps, end, event):
        host = scripted(
            create(1, 10), create(2, 10), flush=["ok", {"outcome": "ok", "during": appending(end(2))}]
        )
        async with living(host):
            await host.do({"do": "advance", "ms": 10})
        assert steps.of(2) == ["due", event]
        assert steps.of(1) == DELIVERED

    async def test_while_in_preflight(self, steps, end, event):
        host = scripted(create(1, 10), flush=["ok", {"outcome": "ok", "during": appending(end(1))}])
        async with living(host):
            await host.do({"do": "advance", "ms": 10})
            assert host.owner.state == "empty"
        assert steps.of(1) == ["due", "checkpoint", event]
        assert "reserve" not in calls(host)

    async def test_while_awaiting_admission(self, steps, end, event):
        host = scripted(create(1), reserve=[{"outcome": "grant", "during": appending(end(1))}])
        async with living(host):
            assert host.owner.state == "empty"
        assert steps.of(1) == ["due", "checkpoint", "confirmed", event]
        assert steps.owner == ["wake", "again", "settle", "stop", "drained"]
        assert calls(host) == ["flush", "reserve", "release", "flush"]

    async def test_while_blocked(self, steps, end, event):
        host = scripted(create(1), reserve=["busy"])
        async with living(host):
            host.session.write("schedule/change", end(1))
            await host.do(TRIGGER)
            assert host.owner.state == "empty"
        assert steps.of(1) == ["due", "checkpoint", "confirmed", "refused", "recheck", event]


async def test_replaced_log_detaches_every_cursor_and_begins_anew(steps):
    host = scripted(create(1, 10), create(2, 20))
    async with living(host):
        host.session.events[:] = logs.log(create(7, 30))
        await host.do(TRIGGER)
        assert (host.owner.state, host.armed_ms) == ("waiting", 30)
        assert [reminder.id for reminder in host.owner.snapshot().reminders] == ["schedule-7"]
    assert steps.of(1) == steps.of(2) == ["detach"]


async def test_reminder_created_and_ended_between_two_syncs_never_gets_a_cursor(steps):
    host = scripted()
    async with living(host):
        for change in (create(1), delete(1), create(2), dispatch(2)):
            host.session.write("schedule/change", change)
        await host.do(TRIGGER)
    assert steps.of(1) == steps.of(2) == []


async def test_stop_detaches_from_every_state(steps):
    """``detach`` from armed, overdue, preflight, awaiting_admission and queued."""
    host = scripted(create(1, 10), create(2, 10), create(3, 99), flush=["ok", {"hold": "preflight"}])
    await host.do({"do": "start"})
    await host.do({"do": "advance", "ms": 10})
    host.act(DISPOSE)
    host.act({"do": "release", "hold": "preflight", "outcome": "unacknowledged"})
    await host.owner.wait_stopped()
    assert steps.of(1) == ["due", "checkpoint", "unconfirmed", "detach"]
    assert steps.of(2) == ["due", "detach"]
    assert steps.of(3) == ["detach"]

    confirmed = scripted(create(4, 10), flush=["ok", {"hold": "preflight"}])
    await confirmed.do({"do": "start"})
    await confirmed.do({"do": "advance", "ms": 10})
    confirmed.act(DISPOSE)
    await confirmed.do({"do": "release", "hold": "preflight"})
    assert steps.of(4) == ["due", "checkpoint", "detach"]

    blocked = scripted(create(5), reserve=["busy"])
    await blocked.do({"do": "start"})
    await stop(blocked)
    assert steps.of(5) == ["due", "checkpoint", "confirmed", "refused", "detach"]

    queued = scripted(create(6), flush=["ok", "reject"])
    await queued.do({"do": "start"})
    await stop(queued)
    assert steps.of(6) == ["due", "checkpoint", "confirmed", "enqueued", "dispatch_unconfirmed", "detach"]


async def test_departed_agent_is_noticed_without_a_host_call(steps):
    host = scripted(create(1, 10))
    await host.do({"do": "start"})
    host.act(DEPART)
    await host.do({"do": "advance", "ms": 10})
    assert host.owner.state == "stopped"
    assert calls(host) == ["flush"]
    assert steps.owner == ["wake", "wait", "wake", "lost", "drained"]
    assert steps.of(1) == ["detach"]


async def test_agent_that_departs_during_the_flush_is_lost_before_its_outcome_counts(steps):
    host = scripted(create(1), flush=[{"outcome": "reject", "during": [DEPART]}])
    await host.do({"do": "start"})
    assert host.owner.state == "stopped"
    assert steps.owner == ["wake", "lost", "drained"]
    assert host.warnings == []


async def test_owner_of_an_agent_that_was_never_live_makes_no_host_call(steps):
    host = ScriptedHost(clock_ms=CLOCK, log=logs.log(create(1)), live=False)
    await host.do({"do": "start"})
    assert (host.owner.state, host.trace) == ("stopped", [])
    assert steps.owner == ["wake", "lost", "drained"]


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ({}, "waiting"),
        ({"flush": ["reject"]}, "parked"),
        ({"flush": [{"hold": "flush"}]}, "driving"),
    ],
)
async def test_stop_from_each_state_ends_in_stopped(steps, script, state):
    host = scripted(create(1, 10), **script)
    await host.do({"do": "start"})
    assert host.owner.state == state
    host.act(DISPOSE)
    assert host.owner.state == "stopping"
    if state == "driving":
        await host.settle()
        assert host.disposed is False
        await host.do({"do": "release", "hold": "flush"})
    await host.owner.wait_stopped()
    assert (host.owner.state, host.armed_ms) == ("stopped", None)
    assert steps.owner[-2:] == ["stop", "drained"]


async def test_stop_before_start_ends_at_once_and_start_does_nothing_then(steps):
    host = scripted(create(1))
    host.owner.recompute()
    host.owner.request_stop()
    assert host.owner.state == "stopped"
    host.owner.start()
    host.owner.request_stop()
    await host.settle()
    await host.owner.wait_stopped()
    assert host.trace == []
    assert steps.owner == ["stop", "drained"]


async def test_triggers_before_start_are_dropped_and_a_second_start_does_nothing(steps):
    host = scripted()
    host.owner.recompute()
    host.owner.start()
    host.owner.start()
    async with living(host):
        assert calls(host) == ["flush"]


async def test_unexpected_exception_crashes_the_owner_with_its_traceback_in_the_log(steps, caplog):
    host = scripted(create(1, 10))
    host.session.events = BrokenLog(host.session.events)
    await host.do({"do": "start"})
    host.session.events.broken = True
    await host.do(TRIGGER)
    assert host.owner.state == "faulted"
    assert steps.owner == ["wake", "wait", "wake", "crashed"]
    assert steps.of(1) == ["detach"]
    assert host.warnings == ["owner"]
    assert "MemoryError" in caplog.text
    await host.owner.wait_stopped()


async def test_unexpected_exception_while_stopping_crashes_too_and_still_releases(steps):
    host = scripted(create(1, 10), clock_ms=CLOCK + 10, followup=[{"outcome": "ok", "during": [DISPOSE]}])
    host.session.events = BrokenLog(host.session.events)
    queue = host.agent.followup

    def followup(message):
        queue(message)
        host.session.events.broken = True

    host.agent.followup = followup
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert steps.owner == ["wake", "stop", "crashed"]
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueued", "detach"]
    assert calls(host)[-1] == "release"
    await host.owner.wait_stopped()


async def test_stop_and_corruption_inside_followup_ends_faulted(steps):
    during = [DISPOSE, *appending(CORRUPT)]
    host = scripted(create(1), followup=[{"outcome": "ok", "during": during}])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert steps.owner == ["wake", "stop", "corrupt"]
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueued", "detach"]
    assert changes(host) == ["dispatch schedule-1"]
    await host.owner.wait_stopped()


async def test_stop_inside_followup_and_a_failing_append_ends_faulted(steps):
    host = scripted(create(1), followup=[{"outcome": "ok", "during": [DISPOSE]}], append=["throw"])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert steps.owner == ["wake", "stop", "append_failed"]
    await host.owner.wait_stopped()
