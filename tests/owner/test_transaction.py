"""The lane: who waits for whom, and what becomes of a transaction whose caller leaves."""

from __future__ import annotations

import asyncio

import pytest

from schedule_sm import plugin
from schedule_sm.core.errors import WouldDeadlockError
from schedule_sm.tools import register_schedule_tools
from tests.minimal_host import MinimalHost
from tests.owner.support import (
    DISPOSE,
    TRIGGER,
    calls,
    changes,
    create,
    living,
    scripted,
    stop,
    tool_task,
)

pytestmark = pytest.mark.asyncio

CREATE = {"prompt": "tea", "after_seconds": 60}
HOLD = {"hold": "flush"}
RELEASE = {"do": "release", "hold": "flush"}


async def test_turn_may_list_while_the_owner_waits_for_that_turn_to_end(travel):
    """Blocked, the owner has given the lane up: else both would wait for ever."""
    answers = []

    async def run_turn(agent, text):
        if text == "work":
            answers.append(await agent.ctx.tools.by_name["schedule_create"].execute(CREATE, agent))
            await asyncio.sleep(90)
            assert plugin.schedule_owner(agent).state == "blocked"
            answers.append(await agent.ctx.tools.by_name["schedule_list"].execute({}, agent))

    host = MinimalHost()
    plugin.apply(host)
    agent = host.create_agent("a", host.session("s"), run_turn)
    agent.send("work")
    await travel(100)
    assert answers[1].value[0]["state"] == "overdue"
    assert [turn.split("\n")[0] for turn in agent.turns] == ["work", "[SCHEDULE REMINDER]"]
    assert plugin.schedule_owner(agent).state == "empty"
    await host.close()
    await agent.close()


async def test_twenty_calls_and_a_drain_of_thirty_take_turns_in_order():
    """FIFO: the first call waits for one drive, each other for the calls ahead of it and that drive."""
    host = scripted(*(create(number) for number in range(1, 31)), flush=[{"hold": "first"}])
    await host.do({"do": "start"})
    ended = []

    async def call(number):
        value, _ = await host.call_tool("schedule_list", {})
        ended.append((number, len(value)))

    tasks = [asyncio.create_task(call(number)) for number in range(20)]
    await host.settle()
    assert ended == []
    await host.do({"do": "release", "hold": "first"})
    await asyncio.gather(*tasks)
    await host.settle()
    assert ended == [(number, 29) for number in range(20)]
    assert len(host.followups) == 30
    await stop(host)


async def test_call_that_comes_during_a_drain_waits_for_one_drive():
    """What it lists says when it had the lane: after the drive in which it was made."""
    host = scripted(*(create(number) for number in range(1, 31)))
    queue, calling = host.agent.followup, []

    def followup(message):
        queue(message)
        if len(host.followups) in (5, 15):
            calling.append(tool_task(host, "schedule_list"))

    host.agent.followup = followup
    async with living(host):
        listed = [len((await call)[0]) for call in calling]
        assert listed == [25, 15]
        assert len(host.followups) == 30


async def test_flush_that_never_suspends_does_not_starve_the_loop():
    host = scripted(*(create(number) for number in range(1, 31)))
    turns = 0

    async def count_turns():
        nonlocal turns
        while len(host.followups) < 30:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count_turns())
    async with living(host):
        await task
    assert turns >= 30


async def test_list_never_shows_what_another_call_has_not_confirmed():
    host = scripted(flush=["ok", "ok", HOLD])
    async with living(host):
        creating = tool_task(host, "schedule_create", CREATE)
        listing = tool_task(host, "schedule_list")
        await host.settle()
        assert changes(host) == ["create schedule-1"]
        assert not listing.done()
        await host.do({**RELEASE, "outcome": "reject"})
        assert (await creating)[0]["code"] == "persistence_uncertain"
        value, _ = await listing  # its own preflight confirmed what the barrier had left open
        assert [view["id"] for view in value] == ["schedule-1"]
        assert calls(host)[:5] == ["flush", "flush", "append create schedule-1", "flush", "flush"]


async def test_later_list_confirms_and_arms_what_an_uncertain_create_left_open():
    host = scripted(flush=["ok", "ok", "reject", "reject"])
    async with living(host):
        value, _ = await host.call_tool("schedule_create", CREATE)
        assert value["code"] == "persistence_uncertain"
        assert list(value) == ["code", "message", "operation", "id"]
        await host.settle()
        assert (host.owner.state, host.armed_ms) == ("parked", None)
        await host.call_tool("schedule_list", {})
        await host.settle()
        assert (host.owner.state, host.armed_ms) == ("waiting", 60_000)


class TestCallerThatLeaves:
    """Cancellation at every await of a tool: the caller leaves at once, the lane is freed by the transaction."""

    async def test_while_it_waits_for_the_lane_makes_no_host_call(self):
        host = scripted(flush=["ok", HOLD])
        async with living(host):
            holder = tool_task(host, "schedule_list")
            await host.settle()
            waiting = tool_task(host, "schedule_create", CREATE)
            behind = tool_task(host, "schedule_list")
            await host.settle()
            waiting.cancel()
            await host.settle()
            assert waiting.cancelled()
            assert calls(host) == ["flush", "flush"]
            await host.do(RELEASE)
            assert (await holder)[0] == (await behind)[0] == []
            assert changes(host) == []

    async def test_during_the_preflight_appends_nothing_and_frees_the_lane_when_the_flush_ends(self):
        host = scripted(flush=["ok", HOLD])
        async with living(host):
            calling = tool_task(host, "schedule_create", CREATE)
            behind = tool_task(host, "schedule_list")
            await host.settle()
            calling.cancel()
            await host.settle()
            assert calling.cancelled()
            assert not behind.done()
            await host.do(RELEASE)
            assert (await behind)[0] == []
            assert changes(host) == []

    async def test_during_the_barrier_finishes_barrier_and_notification(self):
        host = scripted(flush=["ok", "ok", HOLD])
        async with living(host):
            calling = tool_task(host, "schedule_create", CREATE)
            await host.settle()
            assert changes(host) == ["create schedule-1"]
            calling.cancel()
            await host.settle()
            assert calling.cancelled()
            assert host.armed_ms is None
            await host.do(RELEASE)
            assert (host.owner.state, host.armed_ms) == ("waiting", 60_000)

    async def test_delete_during_the_preflight_deletes_nothing(self):
        host = scripted(create(1, 9_000), flush=["ok", HOLD])
        async with living(host):
            calling = tool_task(host, "schedule_delete", {"id": "schedule-1"})
            await host.settle()
            calling.cancel()
            await host.do(RELEASE)
            assert changes(host) == []


class TestTimeLimit:
    """``tool_timeout_s``: the caller is told that nothing is certain, the transaction ends by itself."""

    def call(self, host, name, arguments):
        dispose = register_schedule_tools(host.ctx, host.agent, host, clock=host.clock, tool_timeout_s=30)
        tool = host.agent.ctx.tools.by_name[name]
        task = asyncio.create_task(tool.execute(arguments, host.agent))
        task.add_done_callback(lambda _: dispose())
        return task

    async def test_counts_the_wait_for_the_lane(self, travel):
        host = scripted(flush=[HOLD])
        await host.do({"do": "start"})
        calling = self.call(host, "schedule_delete", {"id": "schedule-1"})
        await travel(29.9)
        assert not calling.done()
        await travel(0.2)
        value = (await calling).value
        assert {**value, "message": ""} == {
            "code": "persistence_uncertain", "message": "", "operation": "delete", "id": "schedule-1",
        }  # fmt: skip
        assert calls(host) == ["flush"]
        await host.do(RELEASE)
        await stop(host)
        assert calls(host) == ["flush"]

    async def test_appends_nothing_after_it(self, travel):
        host = scripted(flush=[HOLD])
        calling = self.call(host, "schedule_create", CREATE)
        await travel(31)
        assert list((await calling).value) == ["code", "message", "operation"]
        await host.do(RELEASE)
        assert changes(host) == []

    async def test_names_the_id_of_what_was_appended(self, travel):
        host = scripted(flush=["ok", HOLD])
        calling = self.call(host, "schedule_create", CREATE)
        await travel(31)
        assert (await calling).value["id"] == "schedule-1"
        await host.do(RELEASE)
        assert changes(host) == ["create schedule-1"]


class TestClosedLane:
    async def test_waiters_get_internal_error_and_make_no_host_call(self):
        host = scripted(flush=[HOLD])
        await host.do({"do": "start"})
        waiting = tool_task(host, "schedule_create", CREATE)
        await host.settle()
        host.act(DISPOSE)
        assert (await waiting)[0]["code"] == "internal_error"
        assert calls(host) == ["flush"]
        assert host.disposed is False
        await host.do(RELEASE)
        assert host.disposed is True
        assert calls(host) == ["flush"]

    async def test_holder_that_has_not_begun_makes_no_host_call(self):
        host = scripted()
        await host.do({"do": "start"})
        holding = tool_task(host, "schedule_create", CREATE)
        await asyncio.sleep(0)
        host.act(DISPOSE)
        assert (await holding)[0]["code"] == "internal_error"
        await host.settle()
        assert (host.disposed, calls(host)) == (True, ["flush"])

    async def test_holder_before_its_append_stops_there(self):
        host = scripted(flush=["ok", HOLD])
        await host.do({"do": "start"})
        holding = tool_task(host, "schedule_create", CREATE)
        await host.settle()
        await host.do(DISPOSE)
        assert host.disposed is False
        await host.do(RELEASE)
        assert (await holding)[0]["code"] == "internal_error"
        assert host.disposed is True
        assert changes(host) == []

    async def test_holder_after_its_append_finishes_its_barrier(self):
        host = scripted(flush=["ok", "ok", HOLD])
        await host.do({"do": "start"})
        holding = tool_task(host, "schedule_create", CREATE)
        await host.settle()
        await host.do(DISPOSE)
        assert host.disposed is False
        await host.do(RELEASE)
        assert (await holding)[0]["id"] == "schedule-1"
        assert host.disposed is True

    async def test_later_calls_through_a_kept_tool_get_internal_error(self):
        host = scripted()
        async with living(host):
            await host.call_tool("schedule_list", {})
            tool = host.agent.ctx.tools.by_name["schedule_list"]
        made = len(host.trace)
        assert (await tool.execute({}, host.agent)).value["code"] == "internal_error"
        assert len(host.trace) == made


async def test_conflicting_second_registration_leaves_the_calls_of_the_first_alone():
    host = scripted(flush=["ok", HOLD])
    async with living(host):
        calling = tool_task(host, "schedule_create", CREATE)
        await host.settle()
        with pytest.raises(ValueError, match="registered already"):
            register_schedule_tools(host.ctx, host.agent, host, clock=host.clock)
        assert len(host.agent.ctx.tools.by_name) == 3
        await host.do(RELEASE)
        assert (await calling)[0]["id"] == "schedule-1"


async def test_flush_that_calls_a_tool_is_refused_it():
    host = scripted()
    answers = []
    flush = host.ctx.flush

    async def calling_flush(session):
        answers.append((await host.call_tool("schedule_list", {}))[0]["code"])
        return await flush(session)

    host.ctx.flush = calling_flush
    async with living(host):
        assert answers == ["internal_error"]
        assert (await host.call_tool("schedule_list", {}))[0] == []
        await host.settle()
        assert answers == ["internal_error"] * 3


async def test_flush_that_waits_for_the_owner_to_stop_is_refused_and_counts_as_unconfirmed():
    host = scripted()
    refused = []

    async def waiting_flush(session):
        try:
            await host.owner.wait_stopped()
        except WouldDeadlockError as error:
            refused.append(error.code)
            raise
        return True

    host.ctx.flush = waiting_flush
    await host.do({"do": "start"})
    assert host.owner.state == "parked"
    value, _ = await host.call_tool("schedule_list", {})
    assert value["code"] == "persistence_uncertain"
    assert refused == ["would_deadlock"] * 2
    await stop(host)


async def test_one_call_costs_one_drive():
    """The triggers of preflight and barrier are coalesced while the call holds the lane."""
    host = scripted()
    async with living(host):
        await host.call_tool("schedule_create", CREATE)
        await host.settle()
        assert calls(host) == ["flush", "flush", "append create schedule-1", "flush", "flush"]


async def test_cancelled_flush_of_a_store_is_unconfirmed_and_stops_nobody():
    """A ``CancelledError`` out of the host's flush is the host's, not a cancellation of the owner or the call."""
    host = scripted()
    broken = asyncio.get_running_loop().create_future()
    broken.cancel()
    flush = host.ctx.flush

    async def cancelled_flush(session):
        await broken

    host.ctx.flush = cancelled_flush
    await host.do({"do": "start"})
    assert host.owner.state == "parked"
    assert (await host.call_tool("schedule_list", {}))[0]["code"] == "persistence_uncertain"
    host.ctx.flush = flush
    await host.do(TRIGGER)
    assert host.owner.state == "empty"
    await stop(host)


@pytest.mark.parametrize("turns", [1, 3])
async def test_transaction_that_dies_with_its_loop_frees_the_lane(turns):
    """Also one that is cancelled before its first step; its caller is told that nothing is certain."""
    host = scripted(flush=["ok", HOLD])
    async with living(host):
        calling = tool_task(host, "schedule_create", CREATE)
        for _ in range(turns):
            await asyncio.sleep(0)
        name = f"schedule-sm transaction {host.agent.id}"
        next(task for task in asyncio.all_tasks() if task.get_name() == name).cancel()
        assert (await calling)[0]["code"] == "persistence_uncertain"
        if turns == 1:
            host.act(TRIGGER)
            await host.settle()
            await host.do(RELEASE)
        assert (await host.call_tool("schedule_list", {}))[0] == []
        assert changes(host) == []
