"""The window from reservation to dispatch append, in a host that does in it whatever it likes."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.core import logs
from tests.owner.support import (
    CLOCK,
    CORRUPT,
    DEPART,
    DISPOSE,
    TRIGGER,
    appending,
    calls,
    changes,
    create,
    delete,
    dispatch,
    living,
    scripted,
    stop,
)

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("end", [delete, dispatch])
async def test_record_that_ends_inside_followup_gets_no_dispatch(steps, end):
    """A dispatch of an ended reminder would corrupt the log for good."""
    host = scripted(create(1), followup=[{"outcome": "ok", "during": appending(end(1))}])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert changes(host) == []
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueued", "append_failed"]
    assert steps.owner == ["wake", "append_failed"]
    assert host.warnings == ["append"]
    assert calls(host)[-1] == "release"
    await stop(host)


async def test_record_that_ends_inside_followup_wins_over_stop_and_departure(steps):
    host = scripted(
        create(1), create(2), followup=[{"outcome": "ok", "during": [DISPOSE, DEPART, *appending(delete(1))]}]
    )
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert changes(host) == []
    assert steps.owner == ["wake", "stop", "append_failed"]
    assert steps.of(2) == ["detach"]
    await host.owner.wait_stopped()


async def test_log_that_turns_corrupt_inside_followup_gets_its_dispatch_all_the_same(steps):
    host = scripted(create(1), followup=[{"outcome": "ok", "during": appending(CORRUPT)}])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert changes(host) == ["dispatch schedule-1"]
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueued", "detach"]
    assert steps.owner == ["wake", "corrupt"]
    assert host.warnings == ["corrupt_log"]


async def test_log_that_turns_corrupt_inside_reserve_is_not_handed_over(steps):
    host = scripted(create(1), reserve=[{"outcome": "grant", "during": appending(CORRUPT)}])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert calls(host) == ["flush", "reserve", "release"]
    assert steps.of(1) == ["due", "checkpoint", "confirmed", "detach"]


@pytest.mark.parametrize("during", [DISPOSE, DEPART])
async def test_append_follows_a_followup_in_which_stop_or_departure_came(steps, during):
    host = scripted(create(1), followup=[{"outcome": "ok", "during": [during]}])
    await host.do({"do": "start"})
    assert host.owner.state == "stopped"
    assert calls(host) == [
        "flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush",
    ]  # fmt: skip
    assert steps.of(1)[-2:] == ["enqueued", "dispatch_confirmed"]


async def test_async_followup_is_closed_and_counts_as_raising(steps, recwarn):
    host = scripted(create(1))

    async def followup(message):
        pytest.fail("it must never run")

    host.agent.followup = followup
    async with living(host):
        assert host.owner.state == "parked"
        assert changes(host) == []
        assert steps.of(1) == ["due", "checkpoint", "confirmed", "enqueue_failed"]
    gc.collect()
    assert not recwarn.list


async def test_followup_that_returns_a_task_counts_as_raising_and_the_task_is_cancelled():
    host = scripted(create(1))
    started = []

    async def deliver():
        started.append(True)

    tasks = []

    def followup(message):
        tasks.append(asyncio.get_running_loop().create_task(deliver()))
        return tasks[-1]

    host.agent.followup = followup
    async with living(host):
        assert host.owner.state == "parked"
        assert (tasks[0].cancelled(), started) == (True, [])


async def test_async_reserve_is_closed_and_parks(steps, recwarn):
    host = scripted(create(1))
    reserve = host.agent.reserve_turn_admission

    async def asynchronous():
        pytest.fail("it must never run")

    host.agent.reserve_turn_admission = asynchronous
    async with living(host):
        assert host.owner.state == "parked"
        assert steps.of(1) == ["due", "checkpoint", "confirmed", "host_failed"]
        host.agent.reserve_turn_admission = reserve
        await host.do(TRIGGER)
        assert host.owner.state == "empty"
    gc.collect()
    assert not recwarn.list


@pytest.mark.parametrize("given", [True, "yes", 0, object()])
async def test_reservation_that_is_neither_none_nor_callable_parks(steps, given):
    host = scripted(create(1))
    host.agent.reserve_turn_admission = lambda: given
    async with living(host):
        assert host.owner.state == "parked"
        assert host.followups == []
        assert steps.owner == ["wake", "host_failed"]


async def test_async_append_is_closed_and_faults(recwarn):
    host = scripted(create(1))

    async def append(type, data):
        pytest.fail("it must never run")

    host.session.append = append
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    gc.collect()
    assert not recwarn.list


async def _async_release():
    pytest.fail("it must never run")


def _raising_release():
    raise RuntimeError("no release")


@pytest.mark.parametrize("release", [_async_release, _raising_release])
async def test_release_that_fails_is_logged_and_the_drive_goes_on(steps, release, recwarn):
    host = scripted(create(1), create(2))
    host.agent.reserve_turn_admission = lambda: release
    async with living(host):
        assert host.owner.state == "empty"
        assert changes(host) == ["dispatch schedule-1", "dispatch schedule-2"]
        assert host.warnings == ["owner", "owner"]
    gc.collect()
    assert not recwarn.list


async def test_append_that_raises_after_it_appended_still_faults():
    """The message may be queued already: the log, not the exception, says what happened."""
    host = scripted(create(1), create(2))

    def append(type, data):
        host.session.write(type, data)
        raise RuntimeError("a listener raised")

    host.session.append = append
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    assert len(host.followups) == 1
    assert host.session.events[-1]["data"] == dispatch(1)


class TestTriggersFromInsideTheWindow:
    """What a refusing reserve or a failing followup itself triggers is tried once more and then dropped."""

    async def test_refusing_reserve_is_asked_twice(self):
        host = scripted(create(1), reserve=[{"outcome": "busy", "during": [TRIGGER]}] * 9)
        async with living(host):
            assert host.owner.state == "blocked"
            assert calls(host) == ["flush", "reserve busy", "when_idle", "flush", "reserve busy"]
            await host.do(TRIGGER)
            assert calls(host)[5:] == ["flush", "reserve busy"] * 2

    async def test_failing_followup_is_tried_twice(self):
        host = scripted(create(1), followup=[{"outcome": "throw", "during": [TRIGGER]}] * 9)
        async with living(host):
            assert host.owner.state == "parked"
            assert calls(host).count("followup schedule-1 threw") == 2
            await host.do(TRIGGER)
            assert calls(host).count("followup schedule-1 threw") == 4

    async def test_raising_reserve_is_tried_twice(self):
        host = scripted(create(1))
        asked = []

        def reserve():
            asked.append(True)
            host.owner.recompute()
            raise RuntimeError("no reservation")

        host.agent.reserve_turn_admission = reserve
        async with living(host):
            assert host.owner.state == "parked"
            assert len(asked) == 2

    async def test_registry_that_raises_under_admission_is_tried_twice(self):
        host = scripted(create(1))
        fails = []
        get = host.ctx.get

        def registry(id):
            if fails:
                fails.clear()
                raise RuntimeError("no registry")
            return get(id)

        def reserve():
            host.owner.recompute()
            fails.append(True)
            return host.trace.append({"call": "reserve"}) or (lambda: None)

        host.ctx.get = registry
        host.agent.reserve_turn_admission = reserve
        async with living(host):
            assert host.owner.state == "parked"
            assert calls(host) == ["flush", "reserve", "flush", "reserve"]

    async def test_successful_attempt_keeps_what_it_triggered(self):
        host = scripted(create(1), followup=[{"outcome": "ok", "during": [TRIGGER]}])
        async with living(host):
            assert host.owner.state == "empty"
            assert len(host.followups) == 1

    async def test_trigger_from_elsewhere_during_the_second_try_is_not_dropped(self):
        host = scripted(
            create(1),
            reserve=[{"outcome": "busy", "during": [TRIGGER]}] * 2,
            flush=["ok", {"outcome": "ok", "during": [TRIGGER]}],
        )
        async with living(host):
            assert host.owner.state == "empty"
            assert calls(host)[:5] == ["flush", "reserve busy", "when_idle", "flush", "reserve busy"]

    async def test_idle_status_inside_the_window_is_no_trigger(self):
        host = scripted(create(1), reserve=["busy"])
        reserve = host.agent.reserve_turn_admission

        def noisy():
            host.agent.ctx.emit("agent/status", "idle")
            return reserve()

        host.agent.reserve_turn_admission = noisy
        async with living(host):
            assert calls(host) == ["flush", "reserve busy", "when_idle"]


class TestHostThatRaises:
    """Reserve, clock and registry raising at each place: parked, the next trigger retries, no busy loop."""

    async def test_reserve(self, steps):
        host = scripted(create(1))
        reserve = host.agent.reserve_turn_admission

        def broken():
            raise RuntimeError("no reservation")

        host.agent.reserve_turn_admission = broken
        async with living(host):
            assert (host.owner.state, host.warnings) == ("parked", ["owner"])
            host.agent.reserve_turn_admission = reserve
            await host.do(TRIGGER)
            assert host.owner.state == "empty"
        assert steps.of(1)[2:5] == ["confirmed", "host_failed", "checkpoint"]

    @pytest.mark.parametrize("reading", [1, 2, 3])
    async def test_clock_at_each_reading(self, steps, reading):
        """Before the flush nothing falls due; after it and under admission the drive parks."""
        host = scripted(create(1))
        host.owner  # noqa: B018 - made here, so that its first reading is not counted
        now_ms, count = host.clock.now_ms, 0

        def flaky():
            nonlocal count
            count += 1
            if count == reading:
                raise RuntimeError("no clock")
            return now_ms()

        host.clock.now_ms = flaky
        async with living(host):
            if reading > 1:
                assert host.owner.state == "parked"
                assert host.followups == []
                await host.do(TRIGGER)
            assert host.owner.state == "empty"
            assert len(host.followups) == 1
        assert "owner" in host.warnings
        assert steps.owner.count("host_failed") == (reading > 1)

    async def test_clock_after_the_flush_of_a_checkpoint(self, steps):
        host = scripted(create(1, 10))
        async with living(host):
            flush = host.ctx.flush

            async def breaking(session):
                host.clock.fails = True
                return await flush(session)

            host.ctx.flush = breaking
            await host.do({"do": "advance", "ms": 10})
            assert host.owner.state == "parked"
            host.clock.fails, host.ctx.flush = False, flush
            await host.do(TRIGGER)
            assert len(host.followups) == 1
        assert steps.of(1)[:4] == ["due", "checkpoint", "host_failed", "checkpoint"]

    async def test_clock_for_ever_does_not_spin(self):
        host = scripted(create(1))
        host.clock.fails = True
        async with living(host):
            assert (host.owner.state, calls(host)) == ("parked", ["flush"])
            await host.do(TRIGGER)
            assert calls(host) == ["flush", "flush"]

    @pytest.mark.parametrize("place", range(1, 7))
    async def test_registry_at_each_question(self, steps, place):
        host = scripted(create(1))
        get, count = host.ctx.get, 0

        def flaky(id):
            nonlocal count
            count += 1
            if count == place:
                raise RuntimeError("no registry")
            return get(id)

        host.ctx.get = flaky
        async with living(host):
            assert host.owner.state == "parked"
            assert steps.owner[-1] == "host_failed"
            await host.do(TRIGGER)
            assert host.owner.state == "empty"
            assert len(host.followups) == 1

    async def test_registry_for_ever_does_not_spin(self):
        host = scripted(create(1))

        def broken(id):
            raise RuntimeError("no registry")

        host.ctx.get = broken
        async with living(host):
            assert (host.owner.state, host.trace) == ("parked", [])
            await host.do(TRIGGER)
            assert (host.owner.state, host.trace) == ("parked", [])


async def test_reminder_that_went_away_and_an_earlier_one_under_admission_are_looked_at_again():
    host = scripted(create(1), reserve=[{"outcome": "grant", "during": appending(delete(1), create(2, -5))}])
    async with living(host):
        assert changes(host) == ["dispatch schedule-2"]
        assert host.owner.state == "empty"


async def test_log_replaced_under_admission_is_looked_at_again():
    host = scripted(create(1))
    reserve = host.agent.reserve_turn_admission

    def replacing():
        host.session.events[:] = logs.log(create(5, 7))
        return reserve()

    host.agent.reserve_turn_admission = replacing
    async with living(host):
        assert (host.owner.state, host.armed_ms, host.followups) == ("waiting", 7, [])


async def test_lateness_is_told_to_the_host():
    host = scripted(create(1, 1_000), clock_ms=CLOCK + 61_000)
    async with living(host):
        assert host.messages[0].metadata["late_ms"] == 60_000
        assert host.messages[0].source == {"kind": "plugin", "plugin": "schedule-sm"}


async def test_log_replaced_inside_followup_by_one_with_the_same_reminder_gets_its_dispatch():
    """The record has not ended, so the message that is queued already must not go unrecorded."""
    host = scripted(create(1), create(2, 7))
    followup = host.agent.followup

    def replacing(message):
        followup(message)
        host.session.events[:] = logs.log(create(1))

    host.agent.followup = replacing
    async with living(host):
        assert (changes(host), host.owner.state, host.warnings) == (["dispatch schedule-1"], "empty", [])


async def test_log_replaced_inside_followup_by_one_with_another_reminder_of_that_id_gets_no_dispatch():
    host = scripted(create(1))
    followup = host.agent.followup

    def replacing(message):
        followup(message)
        host.session.events[:] = logs.log(create(1, prompt="coffee"))

    host.agent.followup = replacing
    async with living(host):
        assert (changes(host), host.owner.state, host.warnings) == ([], "faulted", ["append"])
