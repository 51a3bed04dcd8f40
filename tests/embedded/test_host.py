"""The host as a whole: opening, resuming, forking, fencing, faults of the disk, closing in order."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedule_sm
from schedule_sm.embedded import BuiltinRunner, ScheduleHost
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.errors import HostClosedError, SessionExistsError
from schedule_sm.embedded.wake import replay_wake_at
from schedule_sm.stores.errors import SessionHeldError, SessionUnknownError, StoreLockedError
from schedule_sm.stores.failpoints import set_failpoint_hook
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo, StoredEvent
from tests.embedded.scripted import ScriptedRunner, ScriptedStore, by_agent, types_of


@pytest.mark.asyncio
async def test_reminder_end_to_end_on_sqlite(travel, tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    async with schedule_sm.ScheduleHost.open(path, runner=BuiltinRunner()) as host:
        session = await host.session("main")
        turns = session.turns()
        assert await session.send("remind me in five minutes to stretch") == (
            "I will remind you in 5 minutes: stretch (schedule-1)."
        )
        assert (
            await session.send("remind me in 1 hour to eat")
            == "I will remind you in 1 hour: eat (schedule-2)."
        )
        assert await session.send("list") == "schedule-1: stretch (in 5 minutes)\nschedule-2: eat (in 1 hour)"
        await travel(299.9)
        assert types_of(session).count("dispatch") == 0
        await travel(0.2)
        replies = [(await anext(turns)).reply for _ in range(4)]
        assert replies[3] == "Reminder: stretch (due 2030-01-01 00:05:00 UTC, on time)"
        assert await session.send("delete 9") == "There is no active reminder schedule-9."
        assert session.owner is not None
        assert session.owner.state == "waiting"
    await travel.suspend(7_200)
    async with ScheduleHost.open(path, runner=BuiltinRunner()) as host:
        session = await host.session("main", create=False)
        late = await anext(session.turns())
        assert late.is_reminder
        assert late.reply == "Reminder: eat (due 2030-01-01 01:00:00 UTC, 1 hour 5 minutes late)"
        assert await session.send("list") == "There are no reminders."
        assert await session.send("how are you") == (await session.send("help"))


@pytest.mark.asyncio
async def test_an_overdue_reminder_and_a_deleted_one_read_well(travel) -> None:
    async with ScheduleHost.open(store=MemoryStore(), runner=BuiltinRunner()) as host:
        session = await host.session("s")
        release = session.agent.reserve_turn_admission()
        assert release is not None
        tools = by_agent(session.agent)
        await tools["create"].invoke({"prompt": "tea", "after_seconds": 1})
        await travel(2)
        asking = asyncio.ensure_future(session.send("list"))
        await travel.settle()
        release()
        assert await asking == "schedule-1: tea (overdue for 1 second)"
        reply = await session.send("remind me in 999999999 weeks to wait")
        assert reply.startswith("That did not work (time_out_of_range)")
        assert (
            await session.send("remind me in 9 days to go") == "I will remind you in 9 days: go (schedule-2)."
        )
        assert await session.send("delete 2") == "Deleted schedule-2."


@pytest.mark.asyncio
async def test_opening_needs_a_path_or_a_store() -> None:
    for arguments in ({}, {"path": "x", "store": MemoryStore()}):
        with pytest.raises(ValueError, match="either"):
            async with ScheduleHost.open(runner=ScriptedRunner(), **arguments):
                pass


@pytest.mark.asyncio
async def test_a_second_host_on_the_file_is_refused_at_once(tmp_path: Path) -> None:
    async with ScheduleHost.open(tmp_path / "a.db", runner=ScriptedRunner()):
        with pytest.raises(StoreLockedError):
            async with ScheduleHost.open(tmp_path / "a.db", runner=ScriptedRunner()):
                pass
    async with ScheduleHost.open(tmp_path / "a.db", runner=ScriptedRunner()):
        pass


@pytest.mark.asyncio
async def test_sessions_are_opened_once_and_named_when_unknown(tmp_path: Path) -> None:
    async with ScheduleHost.open(tmp_path / "a.db", runner=ScriptedRunner()) as host:
        first, second = await asyncio.gather(host.session("main"), host.session("main"))
        assert first is second
        await first.send("x")
        await first.close()
        await first.close()
        with pytest.raises(HostClosedError):
            await first.send("x")
        with pytest.raises(SessionUnknownError, match="did you mean 'main'"):
            await host.session("mian", create=False)
        for bad in ("", 7, "\ud800"):
            with pytest.raises(ValueError):
                await host.session(bad)  # type: ignore[arg-type]
        again = await host.session("main", create=False)
        assert again is not first
        assert types_of(again) == types_of(first)
    with pytest.raises(HostClosedError):
        await host.session("main")


@pytest.mark.asyncio
async def test_a_session_held_elsewhere_is_refused() -> None:
    place = MemoryPlace()
    async with ScheduleHost.open(store=MemoryStore(place), runner=ScriptedRunner()) as one:
        await one.session("s")
        async with ScheduleHost.open(store=MemoryStore(place), runner=ScriptedRunner()) as two:
            with pytest.raises(SessionHeldError):
                await two.session("s")


@pytest.mark.asyncio
async def test_a_log_with_a_gap_is_refused_and_given_back() -> None:
    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        await (await host.session("s")).send("x")
    del store.place.sessions["s"].events[1]
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        with pytest.raises(schedule_sm.ScheduleError, match="should hold the events 0 to 2"):
            await host.session("s")
        assert store.place.sessions["s"].holder is None


@pytest.mark.asyncio
async def test_a_fork_inherits_history_but_no_reminders_and_no_inbox(travel) -> None:
    store, runner = MemoryStore(), ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        parent = await host.session("parent")
        await parent.send("hello")
        await by_agent(parent.agent)["create"].invoke({"prompt": "tea", "after_seconds": 60})
        child = await host.fork(parent, "child")
        assert (child.header.seed_length, child.header.parent) == (5, "parent")
        assert types_of(child) == [*types_of(parent), "session/end-seed"]
        assert (await by_agent(child.agent)["list"].invoke({})).value == []
        await child.send("and you?")
        assert [item.get("text") for item in runner.histories[-1]] == ["hello", None, "and you?"]
        created = (await by_agent(child.agent)["create"].invoke({"prompt": "own", "after_seconds": 60})).value
        assert created["id"] == "schedule-1"
        grandchild = await host.fork("child", "grandchild")
        assert grandchild.header.seed_length == 10
        for taken in ("child", "parent"):
            with pytest.raises(SessionExistsError):
                await host.fork(parent, taken)
        await child.close()
        with pytest.raises(SessionExistsError):
            await host.fork(parent, "child")
        child = await host.session("child")
        assert child.header.seed_length == 5
        await travel(61)
        assert types_of(child).count("dispatch") == types_of(parent).count("dispatch") == 1
        assert types_of(grandchild).count("dispatch") == 0


@pytest.mark.asyncio
async def test_a_child_agent_has_no_reminders_and_ends_with_its_parent() -> None:
    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner()) as host:
        parent = await host.session("parent")
        child = await host.spawn(parent, "child")
        assert by_agent(child.agent) == {}
        assert child.owner is None
        assert host.ctx.agents.is_root(parent.agent)
        assert not host.ctx.agents.is_root(child.agent)
        assert await child.send("x") == "re: x"
        await parent.close()
        assert host.ctx.agents.get("child") is None
        assert host.ctx.sessions.list() == ()


@pytest.mark.asyncio
async def test_a_parent_that_goes_while_its_child_is_opened_gets_none() -> None:
    store = MemoryStore()
    acquire, is_let_in = store.acquire, asyncio.Event()

    async def held_up(session_id: str, now_ms: int) -> SessionInfo:
        await is_let_in.wait()
        return await acquire(session_id, now_ms)

    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        parent = await host.session("parent")
        store.acquire = held_up  # type: ignore[method-assign]  # the store is slow from here on
        spawning = asyncio.ensure_future(host.spawn(parent, "child"))
        await asyncio.sleep(0)
        await parent.close()
        is_let_in.set()
        with pytest.raises(HostClosedError, match="parent"):
            await spawning
        with pytest.raises(HostClosedError, match="parent"):
            await host.spawn(parent, "child")
        assert host.ctx.sessions.list() == ()
        assert store.place.sessions["child"].holder is None
        assert (await host.session("child")).owner is not None


@pytest.mark.asyncio
async def test_a_fenced_session_is_no_longer_live(travel) -> None:
    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session, other = await host.session("s"), await host.session("other")
        owner = session.owner
        await by_agent(session.agent)["create"].invoke({"prompt": "tea", "after_seconds": 60})
        kept = store.place.sessions["s"]
        kept.info = replace(kept.info, epoch=kept.info.epoch + 1)
        sending = asyncio.ensure_future(session.send("x"))
        await travel(1)
        with pytest.raises(HostClosedError):
            await sending
        assert host.ctx.agents.get("s") is None
        assert owner is not None
        assert owner.state == "stopped"
        await travel(120)
        assert "dispatch" not in [event.body for event in kept.events]
        assert await other.send("still here") == "re: still here"


@pytest.mark.asyncio
async def test_what_waits_behind_a_fault_comes_by_itself_when_it_ends(travel) -> None:
    """A quiet session: nobody calls a tool, nobody sends; the store's retry and its news are enough."""
    store, runner = ScriptedStore(), ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("s")
        tools = by_agent(session.agent)
        await tools["create"].invoke({"prompt": "one", "after_seconds": 60})
        await tools["create"].invoke({"prompt": "two", "after_seconds": 70})
        store.always = Outcome.UNKNOWN
        await travel(600)
        assert session.owner is not None
        assert session.owner.state == "parked"
        assert runner.texts == []
        assert (await tools["list"].invoke({})).value["code"] == "persistence_uncertain"
        store.always = None
        await travel(31)
        assert len(runner.texts) == 2
        assert types_of(session).count("inbox/message") == types_of(session).count("dispatch") == 2


@pytest.mark.asyncio
async def test_a_user_is_answered_while_the_disk_is_full(travel) -> None:
    store, runner = ScriptedStore(), ScriptedRunner()
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "one", "after_seconds": 60})
        store.always = Outcome.UNKNOWN
        await travel(61)
        assert await session.send("hello?") == "re: hello?"
        assert runner.texts == ["hello?"]
        store.always = None
        await travel(31)
        assert len(runner.texts) == 2


@pytest.mark.asyncio
async def test_a_dispatch_that_a_guard_refuses_leaves_no_message(travel) -> None:
    runner = ScriptedRunner()
    store = MemoryStore()

    def refuse(_session: object, type_: str, data: Any) -> None:
        if type_ == "schedule/change" and data["operation"] == "dispatch":
            raise PermissionError("no dispatch today")

    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "one", "after_seconds": 60})
        undo = host.ctx.sessions.guard_append(refuse)
        await travel(61)
        assert types_of(session) == ["create", "inbox/message", "inbox/withdrawn"]
        assert session.owner is not None
        assert session.owner.state == "faulted"
        undo()
        await session.close()
        session = await host.session("s")
        await travel(1)
        assert len(runner.texts) == 1
        assert types_of(session)[3:5] == ["inbox/message", "dispatch"]


@pytest.mark.asyncio
async def test_a_record_that_ends_inside_followup_leaves_no_message(travel) -> None:
    runner = ScriptedRunner()
    async with ScheduleHost.open(store=MemoryStore(), runner=runner) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "one", "after_seconds": 60})

        def meddle(_session: Any, event: dict[str, Any]) -> None:
            if event["type"] == "inbox/message":
                session.log.append(
                    "schedule/change", {"version": 1, "operation": "delete", "id": "schedule-1"}
                )

        host.ctx.sessions.on_append(meddle)
        await travel(61)
        assert types_of(session) == ["create", "inbox/message", "delete", "inbox/withdrawn"]
        assert runner.texts == []
        assert len(session.log.inbox) == 0


@pytest.mark.asyncio
async def test_an_append_that_would_corrupt_the_log_is_refused() -> None:
    async with ScheduleHost.open(store=MemoryStore(), runner=ScriptedRunner()) as host:
        session = await host.session("s")
        with pytest.raises(schedule_sm.ScheduleLogError, match="'s'"):
            session.log.append("schedule/change", {"version": 1, "operation": "delete", "id": "schedule-1"})
        assert len(session.events) == 0


@pytest.mark.asyncio
async def test_durable_commits_are_counted(travel, tmp_path: Path) -> None:
    """One per create, dispatch and delete, one per start and end of a turn; none for a list."""
    from schedule_sm.stores.sqlite import SqliteStore

    store = await SqliteStore.open(tmp_path / "a.db")
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session = await host.session("s")
        tools = by_agent(session.agent)
        await travel(1)
        counts = [store.statistics().commits]

        async def did(what: Any) -> int:
            await what
            await travel.settle()
            counts.append(store.statistics().commits)
            return counts[-1] - counts[-2]

        assert await did(tools["list"].invoke({})) == 0
        assert await did(tools["create"].invoke({"prompt": "a", "after_seconds": 60})) == 1
        assert await did(tools["create"].invoke({"prompt": "b", "after_seconds": 90})) == 1
        assert await did(tools["delete"].invoke({"id": "schedule-2"})) == 1
        assert await did(tools["delete"].invoke({"id": "schedule-2"})) == 0
        assert await did(travel(61)) == 3  # dispatch, start and end of its turn
        assert await did(session.send("x")) == 2
    await store.close()


@pytest.mark.asyncio
async def test_many_agents_at_one_instant_share_commits(travel, tmp_path: Path) -> None:
    from schedule_sm.stores.sqlite import SqliteStore

    store = await SqliteStore.open(tmp_path / "a.db", synchronous="NORMAL")
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        sessions = [await host.session(f"s{n}") for n in range(200)]
        await asyncio.gather(
            *(
                by_agent(session.agent)["create"].invoke({"prompt": "tea", "after_seconds": 60})
                for session in sessions
            )
        )
        before = store.statistics().commits
        await travel(61)
        assert store.statistics().commits - before <= 20
        assert all(types_of(session).count("turn/ended") == 1 for session in sessions)
    await store.close()


@pytest.mark.asyncio
async def test_closing_with_a_hanging_disk_ends_within_the_stores_bound(travel, tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hang(name: str) -> None:
        if name == "commit.before" and not entered.is_set():
            entered.set()
            leave.wait(20)

    loop = travel.loop

    async def run() -> None:
        async with ScheduleHost.open(tmp_path / "a.db", runner=ScriptedRunner()) as host:
            session = await host.session("s")
            set_failpoint_hook(hang)
            session.log.append("note", None)
            flush = asyncio.ensure_future(host.ctx.sessions.flush(session.log))
            while not entered.is_set():  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0)
            flush.cancel()

    loop.run_in_executor = lambda executor, job, *arguments: asyncio.SelectorEventLoop.run_in_executor(
        loop, executor, job, *arguments
    )
    try:
        running = asyncio.ensure_future(run())
        while not entered.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0)
        await travel(25)
        assert running.done()
        await running
    finally:
        set_failpoint_hook(None)
        leave.set()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait({task})


class _Recording(MemoryStore):
    """Keeps what the place looked like after every commit, and checks ``wake_at`` against a replay."""

    def __init__(self, place: MemoryPlace) -> None:
        super().__init__(place)
        self.snapshots: list[MemoryPlace] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        outcomes = await super().append(batch)
        for kept in self.place.sessions.values():
            assert kept.info.wake_at == replay_wake_at(EncodedLog(kept.events), kept.info.seed_length)
        self.snapshots.append(crashed(self.place))
        return outcomes


def crashed(place: MemoryPlace) -> MemoryPlace:
    """Return a copy as a crash leaves it: nobody holds anything."""
    left = MemoryPlace()
    for session_id, kept in place.sessions.items():
        left.sessions[session_id] = copy.copy(kept)
        left.sessions[session_id].events = list(kept.events)
        left.sessions[session_id].holder = None
    return left


def count(events: Sequence[StoredEvent], type_: str, part: str = "") -> int:
    return sum(event.type == type_ and part in event.body for event in events)


@pytest.mark.asyncio
async def test_a_crash_after_any_commit_leaves_one_message_for_each_reminder(travel) -> None:
    store = _Recording(MemoryPlace())
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session = await host.session("s")
        for n in range(4):
            await by_agent(session.agent)["create"].invoke({"prompt": f"p{n}", "after_seconds": 60 + n})
        await by_agent(session.agent)["delete"].invoke({"id": "schedule-3"})
        await session.send("hello")
        await travel(100)
    snapshots = store.snapshots
    assert len(snapshots) >= 4 + 1 + 2 + 3 * 3
    for snapshot in snapshots:
        before = list(snapshot.sessions["s"].events)
        again = _Recording(snapshot)
        runner = ScriptedRunner()
        async with ScheduleHost.open(store=again, runner=runner) as host:
            session = await host.session("s")
            await travel(100)
        after = snapshot.sessions["s"].events
        assert after[: len(before)] == before
        for schedule_id in [f"schedule-{n}" for n in range(1, 5)]:
            created = count(before, "schedule/change", f'"id":"{schedule_id}","kind"')
            deleted = count(after, "schedule/change", f'"delete","id":"{schedule_id}"')
            messages = count(after, "inbox/message", f'"s/{schedule_id}"')
            assert messages == count(after, "turn/ended", f'"message":"s/{schedule_id}"') == created - deleted
            attempts = count(after, "turn/started", f'"message":"s/{schedule_id}"')
            assert attempts in (messages, messages + 1)


@pytest.mark.asyncio
async def test_closing_does_not_wait_for_ever_for_an_opening_that_hangs(travel) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Hangs(MemoryStore):
        async def acquire(self, session_id: str, now_ms: int) -> Any:
            await gate
            return await super().acquire(session_id, now_ms)

    async def run() -> None:
        async with ScheduleHost.open(store=Hangs(), runner=ScriptedRunner()) as host:
            openings.append(asyncio.ensure_future(host.session("s")))
            await asyncio.sleep(0)

    openings: list[asyncio.Future[Any]] = []
    running = asyncio.ensure_future(run())
    await travel(11)
    assert running.done()
    gate.set_result(None)
    with pytest.raises(HostClosedError):
        await openings[0]


@pytest.mark.asyncio
async def test_a_fault_of_our_own_stops_the_turns_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedRunner):
        format = property(lambda _self: answers.pop())  # type: ignore[assignment]

    answers = ["read once, when the host is opened"]

    async with ScheduleHost.open(store=MemoryStore(), runner=Broken()) as host:
        session = await host.session("s")
        sending = asyncio.ensure_future(session.send("x"))
        with pytest.raises(HostClosedError):
            await sending
        assert [turn async for turn in session.turns()] == []
        assert types_of(session).count("turn/started") == 1
    assert "takes no more turns" in caplog.text


@pytest.mark.asyncio
async def test_a_session_fenced_while_the_host_closes_is_waited_for(travel) -> None:
    store = ScriptedStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session = await host.session("s")
        session.log.append("note", None)
        store.script.append(Outcome.FENCED)
    assert not session.log.is_live


@pytest.mark.asyncio
async def test_a_session_that_was_being_opened_while_the_host_closed_is_given_back() -> None:
    store = MemoryStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        opening = asyncio.ensure_future(host.session("s"))
        await asyncio.sleep(0)
    with pytest.raises(HostClosedError):
        await opening
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        assert (await host.session("s")).id == "s"


@pytest.mark.asyncio
async def test_a_fork_that_is_cancelled_is_given_back() -> None:
    store = ScriptedStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        parent = await host.session("parent")
        await parent.send("x")
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        store.script.append(gate)
        forking = asyncio.ensure_future(host.fork(parent, "child"))
        for _ in range(20):
            await asyncio.sleep(0)
        forking.cancel()
        gate.set_result(None)
        with pytest.raises(asyncio.CancelledError):
            await forking
        child = await host.session("child")
        assert child.header.seed_length == len(child.events) == len(parent.events) + 1


class NoFormat:
    def user_message(self, text: str, message_id: str) -> str:
        return text

    async def run_turn(self, *given: object) -> None:
        """Never reached."""


@pytest.mark.asyncio
@pytest.mark.parametrize(("runner", "lack"), [(NoFormat(), "'format'"), (object(), "'format'")])
async def test_runner_that_lacks_something_is_named_before_there_is_a_turn(runner: Any, lack: str) -> None:
    with pytest.raises(schedule_sm.CompositionError, match=lack):
        async with ScheduleHost.open(runner=runner, store=MemoryStore()):
            pass
