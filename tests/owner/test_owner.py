"""What an owner is to the process: its task, its context, its triggers."""

from __future__ import annotations

import asyncio
import contextvars
import gc

import pytest

from tests.owner.support import TRIGGER, calls, create, living, scripted, stop

pytestmark = pytest.mark.asyncio

WORD = contextvars.ContextVar("WORD", default="outside")


async def test_first_drive_begins_a_loop_turn_after_start():
    host = scripted()
    host.owner.start()
    assert (host.owner.state, host.trace) == ("starting", [])
    await asyncio.sleep(0)
    assert host.trace == []
    await host.settle()
    assert calls(host) == ["flush"]
    await stop(host)


async def test_owner_runs_in_a_context_of_its_own():
    host = scripted()
    seen = []
    flush = host.ctx.flush

    async def looking(session):
        seen.append(WORD.get())
        WORD.set("changed by the host")
        return await flush(session)

    host.ctx.flush = looking
    WORD.set("at start")
    await host.do({"do": "start"})
    WORD.set("later")
    await host.do(TRIGGER)
    assert seen == ["at start", "changed by the host"]
    assert WORD.get() == "later"
    await stop(host)


async def test_started_owner_lives_without_anybody_holding_it(travel):
    """A strong reference to its task: a pending task that nobody holds may be collected."""
    host = scripted(create(1, 10))
    await host.do({"do": "start"})
    host._owner, owner_id = None, host.agent.id
    gc.collect()
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert f"schedule-sm owner {owner_id}" in names
    await host.do({"do": "advance", "ms": 10})
    assert len(host.followups) == 1
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await host.settle()


async def test_triggers_are_coalesced_while_a_drive_runs():
    host = scripted(flush=[{"hold": "f"}])
    await host.do({"do": "start"})
    for _ in range(10):
        host.owner.recompute()
    await host.do({"do": "release", "hold": "f"})
    assert calls(host) == ["flush", "flush"]
    await stop(host)


async def test_trigger_during_a_drive_leaves_its_outcome_as_it_is(steps):
    host = scripted(create(1, 10), flush=[{"outcome": "reject", "during": [TRIGGER]}])
    async with living(host):
        assert steps.owner == ["wake", "unconfirmed", "wake", "wait"]


async def test_triggers_after_the_end_do_nothing():
    host = scripted(create(1))
    await host.do({"do": "start"})
    await stop(host)
    made = len(host.trace)
    await host.do(TRIGGER)
    host.owner.start()
    host.agent.ctx.emit("agent/status", "idle")
    await host.settle()
    assert len(host.trace) == made


async def test_ties_are_delivered_in_create_order():
    host = scripted(create(3), create(1), create(2, -1))
    async with living(host):
        texts = [text.split("\n")[2] for text in host.followups]
    assert texts == [f'schedule_id_json: "schedule-{number}"' for number in (2, 3, 1)]


async def test_flush_that_is_gone_or_no_coroutine_is_unconfirmed():
    host = scripted(create(1))
    flush = host.ctx.flush
    for broken in (
        lambda session: True,
        None,
        lambda session: asyncio.sleep(0, "yes"),
        lambda session: asyncio.sleep(0, 1),
    ):
        host.ctx.flush = broken
        await host.do(TRIGGER)
        await host.do({"do": "start"})
        assert host.owner.state == "parked"
    host.ctx.flush = flush
    await host.do(TRIGGER)
    assert host.owner.state == "empty"
    await stop(host)


async def test_child_agent_is_not_live_for_its_owner():
    host = scripted(create(1))
    host.ctx.is_root = lambda agent: False
    await host.do({"do": "start"})
    assert (host.owner.state, host.trace) == ("stopped", [])


async def test_hundred_overdue_reminders_cost_two_flushes_each_and_one_more():
    host = scripted(*(create(number) for number in range(1, 101)))
    async with living(host):
        assert len(host.followups) == 100
        assert calls(host).count("flush") == 201
