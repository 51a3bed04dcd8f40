"""Stopping at every await of the owner and from inside every host call; what waits for what; torn-down loops."""

from __future__ import annotations

import asyncio

import pytest

from schedule_sm.core.cursor import observe_transitions
from schedule_sm.core.errors import WouldDeadlockError
from schedule_sm.owner import ScheduleOwner
from schedule_sm.testing import ScriptedHost
from tests.core import logs
from tests.owner.support import (
    CLOCK,
    DISPOSE,
    TRIGGER,
    appending,
    calls,
    changes,
    create,
    living,
    scripted,
    stop,
    tool_task,
)

pytestmark = pytest.mark.asyncio

STOPPED_INSIDE = {
    "flush": ({"flush": [{"outcome": "ok", "during": [DISPOSE]}]}, ["flush"]),
    "unconfirmed flush": ({"flush": [{"outcome": "reject", "during": [DISPOSE]}]}, ["flush"]),
    "reserve": (
        {"reserve": [{"outcome": "grant", "during": [DISPOSE]}]},
        ["flush", "reserve", "release"],
    ),
    "refused reserve": ({"reserve": [{"outcome": "busy", "during": [DISPOSE]}]}, ["flush", "reserve busy"]),
    "followup": (
        {"followup": [{"outcome": "ok", "during": [DISPOSE]}]},
        ["flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush"],
    ),
    "failing followup": (
        {"followup": [{"outcome": "throw", "during": [DISPOSE]}]},
        ["flush", "reserve", "followup schedule-1 threw", "release"],
    ),
    "append listener": (
        {"append": [{"outcome": "ok", "during": [DISPOSE]}]},
        ["flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush"],
    ),
    "barrier": (
        {"flush": ["ok", {"outcome": "ok", "during": [DISPOSE]}]},
        ["flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush"],
    ),
}


@pytest.mark.parametrize("place", STOPPED_INSIDE)
async def test_stop_from_inside_a_host_call_makes_no_further_one_but_what_is_in_flight(steps, place):
    script, expected = STOPPED_INSIDE[place]
    host = scripted(create(1), create(2, 10), **script)
    await host.do({"do": "start"})
    assert host.owner.state == "stopped"
    assert host.disposed is True
    assert calls(host) == expected
    assert host.armed_ms is None
    assert steps.owner[0] == "wake"
    assert steps.owner[-2:] == ["stop", "drained"]
    unfolded = place in ("flush", "unconfirmed flush")
    assert steps.of(1)[-1:] == ([] if unfolded else ["dispatch_confirmed"] if changes(host) else ["detach"])


@pytest.mark.parametrize("departs", [False, True])
@pytest.mark.parametrize("question", range(1, 6))
async def test_stop_from_inside_the_registry_comes_before_what_it_answers(steps, question, departs):
    host = scripted(create(1))
    get, asked = host.ctx.get, 0

    def stopping(id):
        nonlocal asked
        asked += 1
        if asked == question:
            host.act(DISPOSE)
            host.is_live = not departs
        return get(id)

    host.ctx.get = stopping
    await host.do({"do": "start"})
    assert (host.owner.state, host.disposed, host.warnings) == ("stopped", True, [])
    assert steps.owner == ["wake", "stop", "drained"]
    made = ["flush", "reserve", "followup schedule-1", "append dispatch schedule-1", "release", "flush"]
    assert calls(host) == [[], [], ["flush"], ["flush", "reserve", "release"], made][question - 1]


async def test_stop_from_inside_release(steps):
    host = scripted(create(1), create(2))
    reserve = host.agent.reserve_turn_admission

    def reserving():
        release = reserve()
        return lambda: (release(), host.act(DISPOSE))[0]

    host.agent.reserve_turn_admission = reserving
    await host.do({"do": "start"})
    assert (host.owner.state, changes(host)) == ("stopped", ["dispatch schedule-1"])
    assert calls(host)[-2:] == ["release", "flush"]
    assert steps.of(2) == ["detach"]


async def test_stop_before_the_first_drive_makes_no_host_call():
    host = scripted(create(1))
    host.owner.start()
    await stop(host)
    assert (host.owner.state, host.trace) == ("stopped", [])


async def test_stop_while_the_owner_waits_for_the_lane_makes_no_host_call():
    host = scripted(create(1), flush=[{"hold": "tool"}])
    calling = tool_task(host, "schedule_list")
    await host.settle()
    await host.do({"do": "start"})
    assert host.owner.state == "driving"
    host.owner.request_stop()
    await host.settle()
    assert host.owner.state == "stopped"
    assert calls(host) == ["flush"]
    await host.do({"do": "release", "hold": "tool"})
    await calling
    await stop(host)


async def test_departure_while_the_owner_waits_for_the_lane_makes_no_host_call(steps):
    host = scripted(create(1), flush=[{"hold": "tool"}])
    calling = tool_task(host, "schedule_list")
    await host.settle()
    await host.do({"do": "start"})
    host.is_live = False
    await host.do({"do": "release", "hold": "tool"})
    await calling
    assert (host.owner.state, calls(host)) == ("stopped", ["flush"])
    assert steps.owner == ["wake", "lost", "drained"]
    await stop(host)


@pytest.mark.parametrize("outcome", ["ok", "reject"])
@pytest.mark.parametrize("flush", [0, 1])
async def test_stop_awaits_the_flush_in_flight(steps, flush, outcome):
    host = scripted(create(1), flush=["ok"] * flush + [{"hold": "flush"}])
    await host.do({"do": "start"})
    await host.do(DISPOSE)
    assert (host.owner.state, host.disposed) == ("stopping", False)
    made = len(host.trace)
    await host.do({"do": "release", "hold": "flush", "outcome": outcome})
    assert (host.owner.state, host.disposed) == ("stopped", True)
    assert len(host.trace) == made
    assert host.warnings == ([] if outcome == "ok" else [("preflight", "barrier")[flush]])


async def test_stop_never_appends_a_delete():
    host = scripted(create(1, 10), create(2))
    await host.do({"do": "start"})
    await stop(host)
    assert changes(host) == ["dispatch schedule-2"]


async def test_stop_is_reentrant_from_an_observer_of_its_own_step():
    host = scripted(create(1, 10))
    dispose = observe_transitions(lambda *step: host.owner.request_stop() if step[3] == "stop" else None)
    await host.do({"do": "start"})
    await stop(host)
    dispose()
    assert host.owner.state == "stopped"


@pytest.mark.parametrize(
    ("event", "script"),
    [
        ("wake", {}),
        ("due", {}),
        ("checkpoint", {}),
        ("unconfirmed", {"flush": ["reject"]}),
        ("confirmed", {}),
        ("refused", {"reserve": ["busy"]}),
        ("enqueued", {}),
        ("enqueue_failed", {"followup": ["throw"]}),
        ("dispatch_confirmed", {}),
        ("again", {}),
        ("settle", {}),
        ("host_failed", {}),
    ],
)
async def test_observer_may_stop_the_owner_at_any_step(steps, event, script):
    """No outcome is stepped once stopping, so none is an illegal step either."""
    host = scripted(create(1), **script)
    if event == "host_failed":
        host.agent.reserve_turn_admission = lambda: "no releaser"
    dispose = observe_transitions(lambda *step: host.owner.request_stop() if step[3] == event else None)
    await host.do({"do": "start"})
    dispose()
    assert host.owner.state == "stopped"
    assert steps.owner[-2:] == ["stop", "drained"]
    assert "owner" not in host.warnings or event == "host_failed"
    if event in ("due", "checkpoint", "confirmed"):
        assert calls(host) == ["flush"]
    await stop(host)


async def test_observer_that_raises_is_logged_and_ignored(caplog):
    host = scripted(create(1))

    def raising(*step):
        raise RuntimeError("an observer")

    dispose = observe_transitions(raising)
    async with living(host):
        assert (host.owner.state, len(host.followups)) == ("empty", 1)
    dispose()
    assert "an observer" in caplog.text


async def test_waiting_for_the_end_is_refused_to_the_owner_itself_and_to_a_lane_holder():
    host = scripted()
    refused = []
    flush = host.ctx.flush

    async def asking(session):
        with pytest.raises(WouldDeadlockError, match="another task"):
            await host.owner.wait_stopped()
        refused.append(asyncio.current_task().get_name().split(" ")[1])
        return await flush(session)

    host.ctx.flush = asking
    await host.do({"do": "start"})
    await host.call_tool("schedule_list", {})
    await host.settle()
    assert refused == ["owner", "transaction", "owner"]
    await stop(host)


async def test_waiting_for_the_end_may_be_given_up_and_taken_up_again():
    host = scripted(create(1, 10))
    await host.do({"do": "start"})
    waiting = asyncio.create_task(host.owner.wait_stopped())
    await host.settle()
    waiting.cancel()
    await host.settle()
    assert host.owner.state == "waiting"
    await stop(host)
    await host.owner.wait_stopped()


async def test_waiting_for_the_end_includes_the_agents_transactions():
    host = scripted(flush=["ok", "ok", {"hold": "flush"}])
    await host.do({"do": "start"})
    calling = tool_task(host, "schedule_create", {"prompt": "tea", "after_seconds": 5})
    await host.settle()
    host.owner.request_stop()
    waiting = asyncio.create_task(host.owner.wait_stopped())
    await host.settle()
    assert (host.owner.state, waiting.done()) == ("stopped", False)
    await host.do({"do": "release", "hold": "flush"})
    assert (await calling)[0]["id"] == "schedule-1"
    await waiting
    await stop(host)


async def test_subscription_that_cannot_be_taken_back_hangs_nobody():
    host = scripted()

    def on(event, handler):
        def dispose():
            raise RuntimeError("not now")

        return dispose

    host.agent.ctx.on = on
    await host.do({"do": "start"})
    await stop(host)
    assert (host.owner.state, host.warnings) == ("stopped", ["owner"])


class TestTornDownLoop:
    """A cancelled owner task steps stop, makes no further host call but release, lets the cancellation through."""

    def owner_task(self, host):
        name = f"schedule-sm owner {host.agent.id}"
        return next(task for task in asyncio.all_tasks() if task.get_name() == name)

    @pytest.mark.parametrize(
        ("script", "state"),
        [({}, "waiting"), ({"flush": [{"hold": "f"}]}, "driving"), ({"flush": ["reject"]}, "parked")],
    )
    async def test_cancelled_owner(self, steps, script, state):
        host = scripted(create(1, 10), **script)
        await host.do({"do": "start"})
        assert host.owner.state == state
        made, task = len(host.trace), self.owner_task(host)
        task.cancel()
        await host.settle()
        assert task.cancelled()
        assert (host.owner.state, len(host.trace), host.armed_ms) == ("stopped", made, None)
        assert steps.owner[-2:] == ["stop", "drained"]
        await host.owner.wait_stopped()
        assert (await host.call_tool("schedule_list", {}))[0] != [], "the lane is free"
        await stop(host)

    async def test_cancelled_before_its_first_step(self, steps):
        host = scripted(create(1))
        host.owner.start()
        self.owner_task(host).cancel()
        await host.settle()
        assert (host.owner.state, host.trace, steps.owner) == ("stopped", [], ["stop", "drained"])
        await host.owner.wait_stopped()

    async def test_cancelled_while_blocked_leaves_no_wait(self):
        host = scripted(create(1), reserve=["busy"])
        when_idle, ended = host.agent.when_idle, []

        async def slow_to_leave():
            try:
                await when_idle()
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                ended.append(True)

        host.agent.when_idle = slow_to_leave
        await host.do({"do": "start"})
        self.owner_task(host).cancel()
        await host.owner.wait_stopped()
        assert (host.owner.state, ended) == ("stopped", [True])

    async def test_cancelled_while_it_waits_for_the_lane_passes_the_lane_on(self):
        host = scripted(flush=[{"hold": "f"}])
        first = tool_task(host, "schedule_list")
        await host.settle()
        await host.do({"do": "start"})
        second = tool_task(host, "schedule_list")
        await host.settle()
        self.owner_task(host).cancel()
        await host.settle()
        await host.do({"do": "release", "hold": "f"})
        assert (await first)[0] == (await second)[0] == []
        await stop(host)

    async def test_whole_loop(self):
        """Blocked owner, a holder in its flush, a waiter: everything ends with the loop."""

        async def main():
            host = scripted(create(1), reserve=["busy"], flush=["ok", {"hold": "never"}])
            await host.do({"do": "start"})
            tasks = [tool_task(host, "schedule_list"), tool_task(host, "schedule_list")]
            await host.settle()
            return host, tasks

        host, tasks = await asyncio.to_thread(asyncio.run, main())
        assert all(task.cancelled() for task in tasks)
        assert host.owner.state == "stopped"


async def test_owner_of_a_second_session_is_not_held_up():
    busy, free = scripted(create(1), flush=[{"hold": "f"}]), scripted(create(1))
    await busy.do({"do": "start"})
    await free.do({"do": "start"})
    assert (busy.owner.state, free.owner.state) == ("driving", "empty")
    await busy.do({"do": "release", "hold": "f"})
    await stop(busy)
    await stop(free)


async def test_next_owner_of_the_session_goes_on_where_the_first_stopped():
    host = scripted(create(1), reserve=["busy"])
    await host.do({"do": "start"})
    await stop(host)
    second = ScheduleOwner(host.ctx, host.agent, clock=host.clock)
    second.start()
    await host.settle()
    assert (second.state, changes(host)) == ("empty", ["dispatch schedule-1"])
    second.request_stop()
    await second.wait_stopped()


async def test_tools_go_on_recording_after_a_fault_and_the_next_owner_delivers():
    host = scripted(create(1), append=["throw"])
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    value, _ = await host.call_tool("schedule_create", {"prompt": "tea", "after_seconds": 5})
    assert value["id"] == "schedule-2"
    await host.do(TRIGGER)
    assert host.owner.state == "faulted"
    second = ScheduleOwner(host.ctx, host.agent, clock=host.clock)
    second.start()
    await host.settle()
    assert second.state == "waiting"
    second.request_stop()
    await second.wait_stopped()
    await stop(host)


async def test_corrupt_log_is_reported_by_every_later_call():
    host = ScriptedHost(clock_ms=CLOCK, log=logs.log(create(1, 10), logs.delete("nobody")))
    await host.do({"do": "start"})
    assert host.owner.state == "faulted"
    for name, arguments in [
        ("schedule_list", {}),
        ("schedule_create", {"prompt": "tea", "after_seconds": 5}),
        ("schedule_delete", {"id": "schedule-1"}),
        ("schedule_list", {}),
    ]:
        value, _ = await host.call_tool(name, arguments)
        assert value["code"] == "corrupt_schedule_log"
    assert changes(host) == []
    second = ScheduleOwner(host.ctx, host.agent, clock=host.clock)
    second.start()
    await host.settle()
    assert second.state == "faulted"
    await stop(host)


async def test_listener_that_stops_the_owner_in_a_create_leaves_the_create_confirmed():
    host = scripted(append=[{"outcome": "ok", "during": [*appending(), DISPOSE]}])
    await host.do({"do": "start"})
    value, _ = await host.call_tool("schedule_create", {"prompt": "tea", "after_seconds": 5})
    assert value["id"] == "schedule-1"
    await host.settle()
    assert host.disposed is True
