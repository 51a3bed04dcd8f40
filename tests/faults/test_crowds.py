"""Many at once: users go before reminders, tools wait for one drive at most, and an agent in unrest costs little."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedule_sm.embedded import LiveSession, ScheduleHost
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from tests.embedded.scripted import ScriptedRunner, by_agent

OVERDUE = 500
DUE_S = 10


async def call(session: LiveSession, name: str, **arguments: Any) -> Any:
    return (await by_agent(session.agent)[name].invoke(arguments)).value


async def many_overdue(travel: Any, place: MemoryPlace) -> None:
    """Leave a session behind with ``OVERDUE`` reminders that are overdue."""
    async with ScheduleHost.open(store=MemoryStore(place), runner=ScriptedRunner()) as host:
        session = await host.session("s")
        for number in range(OVERDUE):
            await call(session, "create", prompt=f"p{number}", after_seconds=DUE_S)
    await travel.jump(DUE_S)


def reminder_turns(runner: ScriptedRunner) -> list[str]:
    return [text for text in runner.texts if text.startswith("[SCHEDULE REMINDER]")]


@pytest.mark.asyncio
async def test_a_user_waits_for_at_most_one_reminder_while_500_are_overdue(travel) -> None:
    place = MemoryPlace()
    await many_overdue(travel, place)

    async def slow(_text: str, _tools: Any) -> None:
        await asyncio.sleep(1)

    runner = ScriptedRunner(slow)
    async with ScheduleHost.open(store=MemoryStore(place), runner=runner) as host:
        session = await host.session("s")
        await travel(3.5)
        for number in range(20):
            before = len(runner.texts)
            saying = asyncio.ensure_future(session.send(f"user {number}"))
            await travel(2.1)  # the rest of the turn that runs, then the user's own
            assert saying.done()
            assert runner.texts[before] == f"user {number}"
        await travel(OVERDUE * 1.1)
        assert len(reminder_turns(runner)) == OVERDUE


@pytest.mark.asyncio
async def test_list_and_delete_wait_for_at_most_one_drive_and_the_deleted_do_not_come(travel) -> None:
    place = MemoryPlace()
    await many_overdue(travel, place)
    runner = ScriptedRunner()
    drives = 0

    def count(chart: str, _id: str, _source: str, event: str, _target: str) -> None:
        nonlocal drives
        drives += chart == "OwnerChart" and event in ("wake", "again")

    async with ScheduleHost.open(store=MemoryStore(place), runner=runner, observers=(count,)) as host:
        session = await host.session("s")
        deleted = []
        for number in range(OVERDUE, OVERDUE - 100, -1):
            before = drives
            if number % 2:
                assert (await call(session, "delete", id=f"schedule-{number}"))["deleted"] is True
                deleted.append(f'"schedule-{number}"')
            else:
                assert len(await call(session, "list")) <= OVERDUE
            assert drives - before <= 2, "the drive that held the lane, and the one that was called for"
        await travel(10)
        texts = "".join(reminder_turns(runner))
        assert len(reminder_turns(runner)) == OVERDUE - len(deleted)
        assert not [number for number in deleted if number in texts]


@pytest.mark.asyncio
async def test_an_agent_that_never_becomes_idle_costs_nothing_and_loses_nothing(travel) -> None:
    leave = asyncio.Event()

    async def hold(text: str, _tools: Any) -> None:
        if text == "hold":
            await leave.wait()

    flushes = 0
    runner = ScriptedRunner(hold)
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        await call(session, "create", prompt="x", after_seconds=1)
        holding = asyncio.ensure_future(session.send("hold"))
        await travel(2)
        real_flush = host.ctx.sessions.flush

        async def count(asked: object) -> bool:
            nonlocal flushes
            flushes += 1
            return await real_flush(asked)

        host.ctx.sessions.flush = count
        await travel(86_400)
        assert flushes == 0
        assert session.owner is not None
        assert session.owner.state == "blocked"
        leave.set()
        await travel.settle()
        assert await holding == "re: hold"
        assert len(reminder_turns(runner)) == 1


@pytest.mark.asyncio
async def test_an_agent_that_flaps_a_thousand_times_a_second_is_driven_seldom_and_loses_nothing(
    travel,
) -> None:
    drives = 0

    def count(chart: str, _id: str, _source: str, event: str, _target: str) -> None:
        nonlocal drives
        drives += chart == "OwnerChart" and event == "wake"

    runner = ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(), runner=runner, observers=(count,)) as host:
        session = await host.session("s")
        await call(session, "create", prompt="x", after_seconds=1)
        agent = session.agent
        release = agent.reserve_turn_admission()
        assert release is not None
        await travel(1)
        before = drives
        for _ in range(10_000):  # idle for a moment and busy again before anybody could ask
            release()
            release = agent.reserve_turn_admission()
            assert release is not None
            agent.announce("idle")
            await travel(0.001)
        assert drives - before <= 40, "20 without a pause, then 50 ms doubled up to 5 s"
        release()
        await travel(6)
        assert len(reminder_turns(runner)) == 1
