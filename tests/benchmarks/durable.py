"""Row 9: what being durable costs, in the embedded host on SQLite in WAL mode."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded import ScheduleHost
from schedule_sm.embedded.encoded_log import EncodedLog, encode_data
from schedule_sm.embedded.live_session import LiveSession
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.owner import ScheduleOwner
from schedule_sm.plugin import schedule_owner
from schedule_sm.stores.protocol import NewSession
from schedule_sm.stores.sqlite import SqliteStore
from tests.benchmarks.commit_trace import CommitTrace
from tests.benchmarks.folding import fill
from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target, in_a_loop
from tests.benchmarks.idle_runner import IdleRunner
from tests.benchmarks.lateness import quantile
from tests.benchmarks.lean_host import LeanAgent, LeanHost
from tests.benchmarks.setting import Setting, driven
from tests.benchmarks.workloads import create, end, overdue, until

_CREATES = 200
_CALLS = 20
_AGENTS = 1_000
_OVERDUE = 3_000
_FSYNCS = 200
_REST_S = 0.01
"""Between two creates, and between two raw appends: neither comes with the disk and the core kept busy by the last."""


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    folder = setting.folder
    sides: dict[str, Side] = {
        "create": in_a_loop(creates, folder, _REST_S),
        "raw append + fsync": lambda: raw_appends(folder, _REST_S),
        "create, no rest": in_a_loop(creates, folder, 0),
        "raw append + fsync, no rest": lambda: raw_appends(folder, 0),
        "counted": in_a_loop(counted, folder),
        "agents": in_a_loop(agents_at_once, folder),
        "dispatches": in_a_loop(overdue_dispatches, folder),
        "turns": in_a_loop(overdue_turns, folder),
        "commits alone": lambda: commits_alone(folder),
    }
    if setting.apscheduler is not None:
        sides["APScheduler"] = driven(setting.apscheduler, "overdue", _OVERDUE)
    targets = [
        Target(
            "9a",
            "durable create over raw append + fsync, p50",
            Figure("create", "p50"),
            4,
            Figure("raw append + fsync", "p50"),
        ),
        Target(
            "9a",
            "create after create over append after append",
            Figure("create, no rest", "p50"),
            None,
            Figure("raw append + fsync, no rest", "p50"),
        ),
        *(
            Target(
                "9b",
                f"commits of a {what}",
                Figure("counted", what),
                limit,
                kind=Kind.VALUE,
                unit="count",
            )
            for what, limit in (
                ("create", 1),
                ("delete", 1),
                ("dispatch", 1),
                ("list", 0),
                ("clean flush", 0),
            )
        ),
        Target(
            "9c",
            "commits of 1,000 agents at one instant",
            Figure("agents", "commits"),
            20,
            kind=Kind.VALUE,
            unit="count",
        ),
        *(
            Target(
                "9d",
                f"3,000 overdue, synchronous NORMAL, {what}, over APScheduler's",
                Figure(side, "ms"),
                1 / 4,
                Figure("APScheduler", "ms"),
            )
            for side, what in (("dispatches", "messages durable"), ("turns", "turns run and recorded"))
        ),
        Target(
            "9d",
            "its floor: 3,000 such commits and nothing else, over APScheduler's",
            Figure("commits alone", "ms"),
            None,
            Figure("APScheduler", "ms"),
        ),
    ]
    return [
        Row(
            9,
            "SQLite, WAL, synchronous FULL. (a) schedule_create from call to value beside a write of as many bytes and its "
            "fsync, with 10 ms of rest between two on either side; for comparison without a rest, where the appends follow "
            "each other at once and the driver asks each ms whether the owner has come to rest. Core and disk are not "
            "idle then: an append takes a third of the time that it takes after a rest, a create half. (b) COMMITs that "
            "wrote, seen by the engine's own trace, in each call's or delivery's time. (c) COMMITs that hold a dispatch "
            "when 1,000 sessions' reminders are due at one instant. (d) synchronous NORMAL: from the "
            "opening of a session with 3,000 overdue reminders to the commit of the last dispatch; once with an agent "
            "that runs no turns, as the jobs do nothing, once in the whole host, which commits the start and the end of "
            "every turn; APScheduler's from resume to the last job's end. As each dispatch is a commit of its own (b), no "
            "program can be faster than 3,000 transactions that insert a message and a dispatch: its floor.",
            sides,
            targets,
            quick=frozenset({"9b"}),
        )
    ]


@asynccontextmanager
async def _host(
    folder: Path, synchronous: Literal["FULL", "NORMAL"] = "FULL", log: list[tuple[str, Any]] | None = None
) -> AsyncIterator[tuple[ScheduleHost, SqliteStore]]:
    """Yield a host on a fresh file, which holds ``log`` as the session ``main`` if given."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "sessions.db"
        if log is not None:
            await fill(SqliteStore.open, path, log)
        store = await SqliteStore.open(path, synchronous=synchronous)
        try:
            async with ScheduleHost.open(store=store, runner=IdleRunner()) as host:
                yield host, store
        finally:
            await store.close()


def _tools(live: Any) -> dict[str, Any]:
    return {tool.name: tool for tool in live.agent.ctx.tools}


def _owner(live: LiveSession) -> ScheduleOwner:
    assert live.owner is not None
    return live.owner


async def _at_rest(live: Any) -> None:
    await asyncio.sleep(0)
    await until(lambda: live.owner.state in ("waiting", "empty") and not live.agent.is_busy)


async def creates(folder: Path, rest_s: float) -> Figures:
    """Create one reminder after the other, ``rest_s`` between two; p50 of a call in ms."""
    taken = []
    async with _host(folder) as (host, _):
        live = await host.session("main")
        tool = _tools(live)["schedule_create"]
        for number in range(_CREATES):
            begun = perf_counter()
            result = await tool.execute({"prompt": f"reminder {number}", "after_seconds": 9_000}, live.agent)
            taken.append((perf_counter() - begun) * 1e3)
            assert "id" in result.value
            await _at_rest(live)
            await asyncio.sleep(rest_s)
    return {"p50": quantile(taken, 0.5)}


def raw_appends(folder: Path, rest_s: float) -> Figures:
    """Append the bytes of a create to a file and sync it, again and again, ``rest_s`` between two; p50 in ms."""
    line = str(create(1, wall_ms())).encode()
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_FSYNCS):
            begun = perf_counter()
            file.write(line)
            os.fsync(file.fileno())
            taken.append((perf_counter() - begun) * 1e3)
            time.sleep(rest_s)
    return {"p50": quantile(taken, 0.5)}


async def counted(folder: Path) -> Figures:
    """Count the commits of calls and deliveries, of each the most that one took."""
    figures: dict[str, float] = {}
    with CommitTrace() as trace:
        async with _host(folder) as (host, _):
            live = await host.session("main")
            tools = _tools(live)
            await _at_rest(live)

            async def most(what: str, *calls: Any) -> list[Any]:
                results = []
                for call in calls:
                    before = len(trace.commits)
                    results.append(await call())
                    await _at_rest(live)
                    figures[what] = max(figures.get(what, 0), len(trace.commits) - before)
                return results

            def calling(name: str, arguments: dict[str, Any]) -> Any:
                return lambda: tools[name].execute(arguments, live.agent)

            arguments = [{"prompt": f"reminder {n}", "after_seconds": 9_000} for n in range(_CALLS)]
            made = await most("create", *(calling("schedule_create", each) for each in arguments))
            await most("list", *(calling("schedule_list", {}) for _ in range(_CALLS)))
            await most("clean flush", *(lambda: host.ctx.sessions.flush(live.log) for _ in range(_CALLS)))
            await most("delete", *(calling("schedule_delete", {"id": one.value["id"]}) for one in made))
            before = len(trace.commits)
            for number in range(1, _CALLS + 1):
                live.log.append(SCHEDULE_CHANGE, create(_CALLS + number, wall_ms() - 1_000))
            assert await host.ctx.sessions.flush(live.log)
            _owner(live).recompute()
            await _at_rest(live)
            dispatched = [commit for commit in trace.commits[before:] if commit.dispatches]
    assert sum(commit.dispatches for commit in dispatched) == _CALLS
    assert all(commit.messages == commit.dispatches for commit in dispatched), (
        "a message without its dispatch"
    )
    return figures | {"dispatch": len(dispatched) / _CALLS}


async def agents_at_once(folder: Path) -> Figures:
    """Open 1,000 sessions whose reminders are due at one instant; the commits that hold a dispatch."""
    with CommitTrace() as trace:
        async with _host(folder) as (host, _):
            lives = [await host.session(f"session-{number}") for number in range(_AGENTS)]
            due_ms = wall_ms() + 2_000
            for live in lives:
                live.log.append(SCHEDULE_CHANGE, create(1, due_ms))
            assert all(await asyncio.gather(*(host.ctx.sessions.flush(live.log) for live in lives)))
            for live in lives:
                _owner(live).recompute()
            await asyncio.sleep(0.1)
            for live in lives:
                await _at_rest(live)
            assert wall_ms() < due_ms, "the machine is too slow to be ready at the instant"
            before = len(trace.commits)
            await until(lambda: sum(commit.dispatches for commit in trace.commits[before:]) >= _AGENTS)
            holding = [commit for commit in trace.commits[before:] if commit.dispatches]
            for live in lives:
                await _at_rest(live)
    return {"commits": float(len(holding))}


async def overdue_turns(folder: Path) -> Figures:
    """Open a session with 3,000 overdue reminders in the whole host; until the last dispatch is durable, in ms."""
    log = [(SCHEDULE_CHANGE, data) for _, data in overdue(_OVERDUE, wall_ms())]
    async with _host(folder, "NORMAL", log) as (host, _):
        begun = perf_counter()
        live = await host.session("main")
        taken = await _emptied(live.owner, begun)
        await _at_rest(live)
        _check_dispatched(live.events)
    return {"ms": taken}


async def overdue_dispatches(folder: Path) -> Figures:
    """The same with an agent that runs no turns: each message is durable with its dispatch, and that is all."""
    log = [(SCHEDULE_CHANGE, data) for _, data in overdue(_OVERDUE, wall_ms())]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "sessions.db"
        await fill(SqliteStore.open, path, log)
        store = await SqliteStore.open(path, synchronous="NORMAL")
        sessions = EmbeddedSessions(store)
        async with LeanHost(sessions.flush) as host:
            begun = perf_counter()
            info = await store.acquire("main", wall_ms())
            session = EmbeddedSession(
                sessions,
                "main",
                EncodedLog(await store.read("main")),
                header=NewSession(),
                epoch=info.epoch,
                durable=info.next_seq,
            )
            agent = LeanAgent(session, lambda m: session.queue_reminder(m.text, m.source, m.metadata))
            host.announce(agent)
            taken = await _emptied(schedule_owner(agent), begun)
        await session.writer.close()
        await store.close()
        _check_dispatched(session.events)
    return {"ms": taken}


def commits_alone(folder: Path) -> Figures:
    """Commit 3,000 messages, each with its dispatch, into a store's file by the engine alone; in ms."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "sessions.db"
        asyncio.run(fill(SqliteStore.open, path, [("note", {})]))
        dispatch = encode_data(end("dispatch", 1_000))
        text = encode_data({"id": "main/schedule-1000", "text": "x" * 240, "source": {}, "metadata": {}})
        insert = "INSERT INTO events (session, seq, type, time, body) VALUES ('main', ?, ?, ?, ?)"
        with closing(sqlite3.connect(path, isolation_level=None)) as engine:
            engine.execute("PRAGMA synchronous = NORMAL")
            begun = perf_counter()
            for seq in range(1, 2 * _OVERDUE + 1, 2):
                engine.execute("BEGIN IMMEDIATE")
                engine.execute(insert, (seq, "inbox/message", seq, text))
                engine.execute(insert, (seq + 1, SCHEDULE_CHANGE, seq, dispatch))
                engine.execute("UPDATE sessions SET next_seq = ?, wake_at = ?", (seq + 2, seq))
                engine.execute("COMMIT")
            return {"ms": (perf_counter() - begun) * 1e3}


async def _emptied(owner: Any, begun: float) -> float:
    """Wait until every reminder is delivered and durable; the ms since ``begun``."""
    await until(lambda: owner.state == "empty")
    return (perf_counter() - begun) * 1e3


def _check_dispatched(events: Any) -> None:
    changes = [event["data"] for event in events if event["type"] == SCHEDULE_CHANGE]
    assert sum(change["operation"] == "dispatch" for change in changes) == _OVERDUE
