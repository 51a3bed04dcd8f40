"""Who gets tools and an owner, and in which order both go away; on a host written from the contract alone."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import pairwise

import pytest

from schedule_sm import plugin
from schedule_sm.core.cursor import observe_transitions
from schedule_sm.core.errors import CompositionError
from schedule_sm.owner import ScheduleOwner
from schedule_sm.plugin import schedule_owner
from schedule_sm.testing import ScriptedHost
from tests.core import logs
from tests.minimal_host import MinimalHost, Scope

pytestmark = pytest.mark.asyncio

CREATE = {"prompt": "tea", "after_seconds": 60}
NAMES = ["schedule_create", "schedule_list", "schedule_delete"]


def loaded(**options):
    host = MinimalHost()
    plugin.apply(host, **options)
    return host


async def call(agent, name, arguments=None):
    return (await agent.ctx.tools.by_name[name].execute(arguments or {}, agent)).value


async def end(host, *agents):
    await host.close()
    for agent in agents:
        await agent.close()


# -- loading ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", plugin.inject)
@pytest.mark.parametrize("how", ["absent", "none"])
async def test_loading_without_a_service_fails_at_once_and_names_it(service, how):
    host = MinimalHost()
    if how == "none":
        setattr(host, service, None)
    else:
        delattr(host, service)
    with pytest.raises(CompositionError, match=f"'{service}'") as caught:
        plugin.apply(host)
    assert caught.value.code == "composition"
    assert (host._closers, host._handlers) == ([], {})


async def test_the_plugin_says_what_it_is_called_and_needs():
    assert plugin.name == "schedule-sm"
    assert plugin.inject == ("agents", "sessions", "tools", "session_persistence")


async def test_root_agent_created_after_loading_gets_tools_and_an_owner(travel):
    host = loaded()
    agent = host.create_agent("a", host.session("s"))
    assert list(agent.ctx.tools.by_name) == NAMES
    assert schedule_owner(agent).state == "starting"
    await travel.settle()
    assert schedule_owner(agent).state == "empty"
    assert (await call(agent, "schedule_create", CREATE))["id"] == "schedule-1"
    await travel(60)
    assert agent.turns[0].startswith("[SCHEDULE REMINDER]\n")
    await end(host, agent)


async def test_children_and_agents_live_before_loading_get_nothing(travel):
    host = MinimalHost()
    early = host.create_agent("early", host.session("s"))
    plugin.apply(host)
    child = host.create_agent("child", host.session("c"), is_root=False)
    await travel.settle()
    for agent in (early, child):
        assert agent.ctx.tools.by_name == {}
        assert schedule_owner(agent) is None
    await end(host, early, child)


@pytest.mark.parametrize("taken", NAMES)
async def test_tool_name_conflict_rolls_back_and_leaves_the_agent_without_an_owner(taken, travel, caplog):
    class Taken(MinimalHost):
        def emit(self, event, *news):
            if event == "agent/created":
                news[0].ctx.tools.by_name[taken] = "somebody else's"
            super().emit(event, *news)

    host = Taken()
    plugin.apply(host)
    agent = host.create_agent("a", host.session("s"))
    await travel.settle()
    assert agent.ctx.tools.by_name == {taken: "somebody else's"}
    assert schedule_owner(agent) is None
    assert [record.kind for record in caplog.records] == ["start"]
    await end(host, agent)


async def test_plugin_loaded_twice_leaves_the_first_in_charge(travel, caplog):
    host = loaded()
    plugin.apply(host)
    agent = host.create_agent("a", host.session("s"))
    await travel.settle()
    assert (await call(agent, "schedule_create", CREATE))["id"] == "schedule-1"
    await travel(60)
    assert len(agent.turns) == 1
    assert [record.kind for record in caplog.records] == ["start"]
    await end(host, agent)


async def test_registry_that_raises_at_arrival_leaves_the_agent_without_schedule(travel, caplog):
    host = loaded()

    def broken(agent):
        raise RuntimeError("no registry")

    host.is_root = broken
    agent = host.create_agent("a", host.session("s"))
    assert (agent.ctx.tools.by_name, schedule_owner(agent)) == ({}, None)
    assert [record.kind for record in caplog.records] == ["start"]
    await end(host, agent)


async def test_tool_timeout_is_the_hosts_to_choose(travel):
    host = loaded(tool_timeout_s=5)
    gate = asyncio.Event()

    async def slow(session):
        return await gate.wait()

    host.flush = slow
    agent = host.create_agent("a", host.session("s"))
    calling = asyncio.create_task(call(agent, "schedule_list"))
    await travel(5.1)
    assert (await calling)["code"] == "persistence_uncertain"
    gate.set()
    await end(host, agent)


async def test_observers_see_this_plugins_steps_only(travel):
    steps = []
    host, other = loaded(observers=(lambda *step: steps.append(step),)), loaded()
    agent, stranger = host.create_agent("a", host.session("s")), other.create_agent("b", other.session("t"))
    await travel.settle()
    assert steps == [
        ("OwnerChart", "a", "starting", "wake", "driving"),
        ("OwnerChart", "a", "driving", "settle", "empty"),
    ]
    await end(host, agent)
    await end(other, stranger)


# -- whose owner --------------------------------------------------------------------------------------------------


async def test_schedule_owner_is_of_that_exact_live_agent(travel):
    host = loaded()
    session = host.session("s")
    agent = host.create_agent("a", session)
    owner = schedule_owner(agent)
    assert owner.agent is agent
    assert schedule_owner(ScheduleLess(agent)) is None
    await agent.close()
    assert owner.state == "stopped"
    assert schedule_owner(agent) is None
    assert agent.ctx.tools.by_name == {}
    await end(host)


class ScheduleLess:
    def __init__(self, agent):
        self.id, self.session = agent.id, agent.session


async def test_replaced_agent_hands_over_to_the_newcomer(travel):
    host = loaded()
    session = host.session("s")
    first = host.create_agent("a", session)
    await travel.settle()
    earlier = schedule_owner(first)
    await call(first, "schedule_create", CREATE)
    second = host.create_agent("a", session)
    assert earlier.state == "stopping"
    assert schedule_owner(second) is None
    await travel.settle()
    assert (earlier.state, schedule_owner(second).state) == ("stopped", "waiting")
    await travel(60)
    assert (len(first.turns), len(second.turns)) == (0, 1)
    await end(host, first, second)


async def test_newcomer_beside_a_live_agent_has_tools_that_notify_the_sessions_owner(travel):
    host = loaded()
    session = host.session("s")
    first, second = host.create_agent("a", session), host.create_agent("b", session)
    await travel.settle()
    owner = schedule_owner(first)
    assert (owner.state, schedule_owner(second)) == ("empty", None)
    assert (await call(second, "schedule_create", CREATE))["id"] == "schedule-1"
    await travel.settle()
    assert owner.state == "waiting"
    assert [view["id"] for view in await call(first, "schedule_list")] == ["schedule-1"]

    await first.close()
    await travel.settle()
    assert schedule_owner(second).state == "waiting"
    await travel(60)
    assert (len(first.turns), len(second.turns)) == (0, 1)
    await end(host, second)


async def test_owner_that_cannot_start_keeps_no_newcomer_waiting(travel, caplog):
    host = loaded()
    session = host.session("s")

    def no_subscriptions(event, handler):
        raise RuntimeError("this scope has no events")

    on, Scope.on = Scope.on, lambda scope, *given: no_subscriptions(*given)
    try:
        first = host.create_agent("first", session)
    finally:
        Scope.on = on
    assert schedule_owner(first).state == "stopped"
    assert [record.kind for record in caplog.records if hasattr(record, "kind")] == ["start"]
    second = host.create_agent("second", session)
    await travel.settle()
    assert schedule_owner(second).state == "empty"
    await call(first, "schedule_create", CREATE)
    await travel.settle()
    assert schedule_owner(second).state == "waiting"
    await end(host, first, second)


async def test_newcomer_that_goes_before_its_turn_as_owner_leaves_nothing_behind(travel):
    host = loaded()
    session = host.session("s")
    first, second = host.create_agent("a", session), host.create_agent("b", session)
    third = host.create_agent("c", session)
    await travel.settle()
    await second.close()
    await first.close()
    await travel.settle()
    assert schedule_owner(second) is None
    assert schedule_owner(third).state == "empty"
    await end(host, third)


async def test_departure_wakes_one_of_the_newcomers_that_wait(travel, monkeypatch):
    waits = 0
    wait_stopped = ScheduleOwner.wait_stopped

    async def counted(owner):
        nonlocal waits
        waits += 1
        await wait_stopped(owner)

    monkeypatch.setattr(ScheduleOwner, "wait_stopped", counted)
    host = loaded()
    session = host.session("s")
    agents = [host.create_agent(f"a{number}", session) for number in range(20)]
    for agent, following in pairwise(agents):
        await travel.settle()
        assert schedule_owner(agent).state == "empty"
        assert schedule_owner(following) is None
        await agent.close()
    await travel.settle()
    assert schedule_owner(agents[-1]).state == "empty"
    assert waits < 3 * len(agents)
    await end(host, agents[-1])


async def test_newcomers_follow_in_the_order_of_their_coming_whoever_leaves_meanwhile(travel):
    host = loaded()
    session = host.session("s")
    names = [f"a{number}" for number in range(12)]
    agents = {name: host.create_agent(name, session) for name in names}
    await travel.settle()
    for name in names[1::3]:
        await agents.pop(name).close()
    while agents:
        name = next(iter(agents))
        await travel.settle()
        assert [other for other in agents if schedule_owner(agents[other]) is not None] == [name]
        await agents.pop(name).close()
        if name == names[3]:
            agents["late"] = host.create_agent("late", session)
    await end(host)


async def test_newcomer_that_is_no_longer_live_gets_no_owner(travel):
    host = loaded()
    session = host.session("s")
    first, second = host.create_agent("a", session), host.create_agent("b", session)
    await travel.settle()
    del host.live["b"]
    await first.close()
    await travel.settle()
    assert schedule_owner(second) is None
    await end(host, second)


async def test_unloading_gives_no_newcomer_an_owner(travel):
    host = loaded()
    session = host.session("s")
    agents = [host.create_agent(name, session) for name in "abc"]
    await travel.settle()
    await host.close()
    await travel.settle()
    assert [schedule_owner(agent) for agent in agents] == [None] * 3
    assert [agent.ctx.tools.by_name for agent in agents] == [{}] * 3
    await end(host, *agents)


async def test_faulted_owner_of_a_live_agent_is_followed_by_the_newcomers(travel):
    host = loaded()
    session = host.session("s")
    first = host.create_agent("a", session)
    await travel.settle()

    def followup(message):
        session.append("schedule/change", logs.delete("schedule-1"))

    first.followup = followup
    await call(first, "schedule_create", CREATE)
    await travel(60)
    assert schedule_owner(first).state == "faulted"
    assert (await call(first, "schedule_create", CREATE))["id"] == "schedule-2", "the tools go on recording"
    second = host.create_agent("b", session)
    await travel(60)
    assert (schedule_owner(second).state, len(second.turns)) == ("empty", 1)
    await end(host, first, second)


async def test_sessions_of_one_host_have_lanes_of_their_own(travel):
    host = loaded()
    gate = asyncio.Event()
    flush = host.flush

    async def slow(session):
        if session.id == "slow":
            await gate.wait()
        return await flush(session)

    host.flush = slow
    slow_agent, agent = (
        host.create_agent("x", host.session("slow")),
        host.create_agent("y", host.session("fast")),
    )
    await travel.settle()
    assert await call(agent, "schedule_list") == []
    assert schedule_owner(slow_agent).state == "driving"
    gate.set()
    await end(host, slow_agent, agent)


async def test_reminder_comes_late_after_the_session_is_resumed(travel):
    first_host = loaded()
    session = first_host.session("s")
    agent = first_host.create_agent("a", session)
    await call(agent, "schedule_create", CREATE)
    await end(first_host, agent)
    await travel(3_600)
    host = loaded()
    resumed = host.session("s")
    resumed.events.extend(session.events)
    later = host.create_agent("a", resumed)
    await travel.settle()
    assert len(later.turns) == 1
    await end(host, later)


async def test_fork_inherits_no_reminder(travel):
    host = loaded()
    parent = host.session("p")
    agent = host.create_agent("a", parent)
    await call(agent, "schedule_create", CREATE)
    fork = host.session("f", seed_length=len(parent.events))
    fork.events.extend(parent.events)
    child = host.create_agent("b", fork)
    assert await call(child, "schedule_list") == []
    assert (await call(child, "schedule_create", CREATE))["id"] == "schedule-1"
    await end(host, agent, child)


# -- unloading ----------------------------------------------------------------------------------------------------


async def test_unloading_goes_in_order(travel):
    """Stop, unregister, close the lane, end the idle wait, end the drive, detach, stopped."""
    host = loaded()
    session = host.session("s")
    session.append("schedule/change", logs.create("schedule-1", at="2029-01-01T00:00:00.000Z"))
    order, gate, flush, gated = [], asyncio.Event(), host.flush, []

    async def slow(flushed):
        if gated:
            await gate.wait()
            order.append("flush ended")
        return await flush(flushed)

    host.flush = slow

    async def run_turn(agent, text):
        await asyncio.Event().wait()

    agent = host.create_agent("a", session, run_turn)
    when_idle = agent.when_idle

    async def waiting():
        try:
            await when_idle()
        finally:
            order.append("idle wait ended")

    agent.when_idle = waiting
    agent.send("work")
    await travel.settle()
    owner = schedule_owner(agent)
    assert owner.state == "blocked"
    gated.append(True)
    owner.recompute()
    await travel.settle()
    waiter = asyncio.create_task(call(agent, "schedule_create", CREATE))
    await travel.settle()

    by_name = agent.ctx.tools.by_name

    class Watched(dict):
        def pop(self, name, default=None):
            order.append(f"unregister {name}")
            return super().pop(name, default)

    agent.ctx.tools.by_name = Watched(by_name)
    waiter.add_done_callback(lambda task: order.append(f"waiter got {task.result()['code']}"))
    dispose = observe_transitions(lambda chart, _s, _f, event, _t: order.append(event))
    unloading = asyncio.create_task(host.close())
    await travel.settle()
    assert not unloading.done()
    gate.set()
    await unloading
    dispose()
    assert order == [
        "stop",
        "unregister schedule_delete",
        "unregister schedule_list",
        "unregister schedule_create",
        "idle wait ended",
        "waiter got internal_error",
        "flush ended",
        "detach",
        "drained",
    ]
    assert owner.state == "stopped"
    await agent.close()


async def test_unloading_awaits_every_agent_and_a_second_unloading_the_same_end(travel):
    host = loaded()
    agents = [host.create_agent(str(number), host.session(str(number))) for number in range(5)]
    await travel.settle()
    owners = [schedule_owner(agent) for agent in agents]
    closers = list(host._closers)
    await asyncio.gather(
        *(close() for close in closers if asyncio.iscoroutinefunction(close)), agents[0].close()
    )
    assert [owner.state for owner in owners] == ["stopped"] * 5
    late = host.create_agent("late", host.session("late"))
    assert late.ctx.tools.by_name == {}
    await end(host, *agents[1:], late)


async def test_unloading_before_the_first_drive_makes_no_host_call(travel):
    host = loaded()
    flushes = []

    async def flush(session):
        flushes.append(session)
        return True

    host.flush = flush
    agent = host.create_agent("a", host.session("s"))
    await host.close()
    assert flushes == []
    await agent.close()


async def test_unloading_with_a_tool_that_cannot_be_taken_back_still_ends(travel, caplog):
    host = loaded()
    agent = host.create_agent("a", host.session("s"))
    await travel.settle()

    class Broken(dict):
        def pop(self, name, default=None):
            raise RuntimeError("stuck")

    agent.ctx.tools.by_name = Broken(agent.ctx.tools.by_name)
    owner = schedule_owner(agent)
    await host.close()
    assert owner.state == "stopped"
    assert schedule_owner(agent) is None
    agent.ctx.tools.by_name = {}
    await agent.close()


async def test_nothing_holds_an_agent_that_is_gone(travel):
    host = loaded()
    agent = host.create_agent("a", host.session("s"))
    await travel.settle()
    await agent.close()
    host.known.clear()
    session, known = weakref.ref(agent.session), weakref.ref(agent)
    del agent
    await asyncio.sleep(0)
    gc.collect()
    assert (known(), session()) == (None, None)
    await host.close()


async def test_scripted_agent_through_the_plugin(travel):
    """The two hosts of the tests offer the same contract."""
    host = ScriptedHost(clock_ms=travel.now_ms, log=logs.log(logs.create("schedule-1")))
    closers = []
    host.ctx.defer = closers.append
    plugin.apply(host.ctx)
    host.ctx.emit("agent/created", host.agent)
    await travel.settle()
    assert len(host.followups) == 1
    await closers[0]()
