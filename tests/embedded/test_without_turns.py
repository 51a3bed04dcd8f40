"""A session without turns: its tools, what it says is due, and what it leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from schedule_sm import ScheduleHost
from schedule_sm.clock import LoopClock
from schedule_sm.core.errors import CompositionError
from schedule_sm.core.instants import format_instant
from schedule_sm.core.projection import Projection
from schedule_sm.embedded.due_watch import SOON_MS, DueWatch
from schedule_sm.embedded.without_turns import SessionWithoutTurns, TurnlessAgent
from schedule_sm.host import FollowupMessage
from schedule_sm.plugin import schedule_owner
from schedule_sm.stores.errors import SessionHeldError, StoreLockedError
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.stores.sqlite import SqliteStore
from schedule_sm.testing.travel import Travel
from schedule_sm.transaction import shared_session
from tests.cli.running import stored, write_store
from tests.core.logs import create, log
from tests.embedded.scripted import ScriptedRunner, ScriptedStore


async def call(session: SessionWithoutTurns, name: str, **arguments: Any) -> Any:
    [tool] = [tool for tool in session.tools if tool.name == name]
    return (await tool.invoke(arguments)).value


@pytest.mark.asyncio
async def test_exactly_one_of_file_and_store_is_given(tmp_path: Path) -> None:
    for place in ({}, {"path": tmp_path / "a.db", "store": MemoryStore()}):
        with pytest.raises(ValueError, match="either the path of an SQLite file or a store"):
            async with SessionWithoutTurns.open(**place):
                pass


@pytest.mark.asyncio
async def test_session_id_must_be_text() -> None:
    with pytest.raises(ValueError, match="non-empty text"):
        async with SessionWithoutTurns.open(session_id="", store=MemoryStore()):
            pass


@pytest.mark.asyncio
async def test_file_is_held_meanwhile_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SessionWithoutTurns.open(path) as session:
        assert (await call(session, "schedule_create", prompt="x", after_seconds=60))["id"] == "schedule-1"
        with pytest.raises(StoreLockedError):
            await SqliteStore.open(path)
    async with SessionWithoutTurns.open(path) as session:
        assert [view["id"] for view in await call(session, "schedule_list")] == ["schedule-1"]


@pytest.mark.asyncio
async def test_session_is_held_meanwhile_and_the_store_stays_open(travel: Travel) -> None:
    place = MemoryPlace()
    store = MemoryStore(place)
    async with SessionWithoutTurns.open(store=store):
        with pytest.raises(SessionHeldError):
            await MemoryStore(place).acquire("main", 0)
    assert (await MemoryStore(place).acquire("main", 0)).next_seq == 0
    assert await store.live()


@pytest.mark.asyncio
async def test_waiting_message_is_left_to_a_host_with_turns(travel: Travel) -> None:
    store = MemoryStore()
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        live = await host.session("main")
        live.agent.session.queue_user_message("hello")  # as if the process died before its turn
    async with SessionWithoutTurns.open(store=store):
        await travel(60)
    assert [event.type for event in await store.read("main")] == ["inbox/message"]
    async with ScheduleHost.open(store=store, runner=runner) as host:
        await host.session("main")
        await travel.settle()
    assert runner.texts == ["hello"]


@pytest.mark.asyncio
async def test_agent_takes_no_turn_and_has_no_owner(travel: Travel) -> None:
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        agent = session.tools[0].caller
        assert isinstance(agent, TurnlessAgent)
        assert schedule_owner(agent) is None
        assert (agent.reserve_turn_admission(), await agent.when_idle()) == (None, None)
        with pytest.raises(CompositionError, match="without turns"):
            agent.followup(FollowupMessage("text", {}, {}))


@pytest.mark.asyncio
async def test_follower_that_raises_harms_nobody(travel: Travel, caplog: pytest.LogCaptureFixture) -> None:
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        heard: list[int] = []

        def raises() -> None:
            raise RuntimeError("mine")

        undo = session.follow(raises)
        session.follow(lambda: heard.append(1))
        assert (await call(session, "schedule_create", prompt="x", after_seconds=60))["id"] == "schedule-1"
        assert heard == [1]
        assert "a follower of what is due raised" in caplog.text
        undo()
        undo()
        await travel(60)
        assert heard == [1, 1]
        assert caplog.text.count("a follower of what is due raised") == 1


class BrokenClock(LoopClock):
    """A clock that cannot be read while ``is_broken``."""

    is_broken = False

    def now_ms(self) -> int:
        if self.is_broken:
            raise OSError("no clock")
        return super().now_ms()


@pytest.mark.asyncio
async def test_clock_that_cannot_be_read_is_asked_again_at_the_next_news(travel: Travel) -> None:
    clock = BrokenClock()
    heard: list[int] = []
    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        agent = session.tools[0].caller
        assert isinstance(agent, TurnlessAgent)
        watch = DueWatch(agent, lambda: heard.append(travel.now_ms), clock=clock)
        await call(session, "schedule_create", prompt="x", after_seconds=60)
        clock.is_broken = True
        watch.recompute()
        assert heard == []
        clock.is_broken = False
        watch.recompute()
        await travel(60)
        assert len(heard) == 2
        watch.close()


def reads_in(work: Callable[[], None]) -> int:
    """How many calls ``work`` makes, into Python and into C: each reading of an entry is one."""
    count = 0

    def count_it(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(count_it)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.asyncio
async def test_create_costs_no_look_at_every_reminder(travel: Travel) -> None:
    costs = []
    for size in (20, 2_000):
        store = MemoryStore()
        far = travel.now_ms + 10 * SOON_MS
        events = log(*(create(f"schedule-{n}", at=format_instant(far + n)) for n in range(size)))
        info = await store.acquire("main", 0)
        await store.append([Append(info.id, info.epoch, 0, stored(events), None, let_go=True)])
        async with SessionWithoutTurns.open(store=store) as session:
            agent = session.tools[0].caller
            assert isinstance(agent, TurnlessAgent)
            heard: list[int] = []
            watch = DueWatch(agent, lambda heard=heard: heard.append(1))
            watch.recompute()
            await call(session, "schedule_create", prompt="x", after_seconds=60)
            costs.append(reads_in(watch.recompute))
            assert heard == [1]
            watch.close()
    assert costs[1] < costs[0] + 100, costs


class SetClock(LoopClock):
    """Shows what it is set to."""

    at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.asyncio
async def test_it_tells_of_each_change_of_what_is_due_or_soon_due_and_of_nothing_else(
    seed: int, travel: Travel
) -> None:
    random = Random(seed)
    clock = SetClock()
    clock.at_ms = travel.now_ms
    heard: list[int] = []

    def seen(projection: Projection) -> tuple[list[str], list[str]]:
        due = [entry.id for entry in projection if entry.target_ms <= clock.at_ms]
        soon = [entry.id for entry in projection if 0 < entry.target_ms - clock.at_ms <= SOON_MS]
        return due, soon

    async with SessionWithoutTurns.open(store=MemoryStore()) as session:
        agent = session.tools[0].caller
        assert isinstance(agent, TurnlessAgent)
        projection = shared_session(agent.session).projection
        watch = DueWatch(agent, lambda: heard.append(1), clock=clock)
        watch.recompute()
        for number in range(1, 200):
            before = seen(projection)
            match random.randrange(4):
                case 0 | 1:
                    await call(
                        session, "schedule_create", prompt="x", after_seconds=random.randrange(1, 10_000)
                    )
                case 2:
                    await call(session, "schedule_delete", id=f"schedule-{random.randrange(1, number + 1)}")
                case _:
                    clock.at_ms += random.randrange(-SOON_MS, 2 * SOON_MS)
            heard.clear()
            watch.recompute()
            assert bool(heard) == (seen(projection) != before), number
        watch.close()


@pytest.mark.asyncio
async def test_corrupt_log_is_an_error_value_and_no_timer(tmp_path: Path) -> None:
    path = write_store(
        tmp_path / "a.db", {"main": stored(log(create("schedule-1"), create("schedule-1")))}, wake_at=None
    )
    async with SessionWithoutTurns.open(path) as session:
        for answer in (await session.due(), await session.due()):
            assert answer.value["code"] == "corrupt_schedule_log"


@pytest.mark.asyncio
async def test_close_says_what_may_be_lost(travel: Travel, caplog: pytest.LogCaptureFixture) -> None:
    store = ScriptedStore()
    async with SessionWithoutTurns.open(store=store) as session:
        store.always = Outcome.UNKNOWN
        value = await call(session, "schedule_create", prompt="x", after_seconds=60)
        assert value["code"] == "persistence_uncertain"
    assert "was closed before all of it was durable" in caplog.text
