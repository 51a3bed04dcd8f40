"""However a host is ended, it ends within its store's bound, asyncio has nothing to say, and no record is touched."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.embedded import ScheduleHost
from schedule_sm.embedded.durability import FLUSH_TIMEOUT_S, LAST_TRY_S
from schedule_sm.stores.group_commit import CLOSE_TIMEOUT_S
from schedule_sm.stores.memory import MemoryPlace, MemoryStore
from tests.crash.judge import read
from tests.embedded.scripted import ScriptedRunner, ScriptedStore, by_agent
from tests.faults.ward import ROOT, SLACK_S

ENDS_S = FLUSH_TIMEOUT_S + 3 * LAST_TRY_S
"""A flush that hangs already, its last try, letting go, and what lies between."""


def interrupt(path: Path, how: str, *again: int) -> str:
    """Run a host process, interrupt it unless it ends by itself, and return its stderr; raises TimeoutExpired."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "tests.faults.interrupted"]
    with subprocess.Popen(
        [*command, str(path), how, *map(str, again)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if how != "left":
                process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=CLOSE_TIMEOUT_S + SLACK_S)
        finally:
            process.kill()  # one that hangs is not waited for again
    return errors


@pytest.mark.parametrize(
    "how",
    [
        ("idle",),
        ("busy",),
        ("left",),
        *(("busy", turn) for turn in (0, 2, 5, 20)),  # a second Ctrl-C, so many turns of the loop later
        *(pytest.param(("locked", turn), marks=pytest.mark.slow) for turn in (0, 20)),
    ],
    ids=lambda how: "-".join(map(str, how)),
)
@pytest.mark.timeout(
    60
)  # a real process, which takes most of a second to start; the lock is waited for in real time
def test_ctrl_c_or_a_loop_torn_down_ends_the_host_without_a_word_from_asyncio(
    tmp_path: Path, how: tuple[Any, ...]
) -> None:
    path = tmp_path / "agent.db"
    errors = interrupt(path, *how)
    assert ("KeyboardInterrupt" in errors) == (how != ("left",))
    assert ("_interrupt_again" in errors) == (len(how) > 1)  # it came while the host was closing
    for warning in (
        "never retrieved",
        "was destroyed",
        "never awaited",
        "Exception ignored",
        "ResourceWarning",
    ):
        assert warning not in errors
    story = read(path)["s"]
    assert list(story.created)[:1] == ["schedule-1"]
    assert story.ended == {}


class HangingStore(MemoryStore):
    """Appends hang for ever from ``hang()`` on."""

    def __init__(self, place: MemoryPlace) -> None:
        super().__init__(place)
        self.hangs = False

    async def append(self, batch: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().append(batch)


@pytest.mark.asyncio
async def test_cancelling_the_whole_task_group_on_a_store_that_hangs_ends_within_the_bound(travel) -> None:
    place = MemoryPlace()
    inside: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hold(_text: str, _tools: Any) -> None:
        await asyncio.Event().wait()

    async def application() -> None:
        store = HangingStore(place)
        async with (
            ScheduleHost.open(store=store, runner=ScriptedRunner(hold)) as host,
            asyncio.TaskGroup() as tasks,
        ):
            session = await host.session("s")
            create = by_agent(session.agent)["create"]
            await create.invoke({"prompt": "kept", "after_seconds": 60})
            tasks.create_task(session.send("hold"))
            await travel.settle()
            store.hangs = True
            tasks.create_task(create.invoke({"prompt": "during", "after_seconds": 60}))
            inside.set_result(None)

    running = asyncio.ensure_future(application())
    await inside
    await travel.settle()
    running.cancel()
    await travel(ENDS_S)
    assert running.cancelled()
    (change,) = [event.body for event in place.sessions["s"].events if event.type == "schedule/change"]
    assert '"operation":"create"' in change


@pytest.mark.asyncio
async def test_a_flush_that_hangs_for_ever_is_uncertain_to_each_caller_within_its_bound(travel) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner(), tool_timeout_s=30) as host:
        session = await host.session("s")
        tools = by_agent(session.agent)
        store.script = [gate]
        first = asyncio.ensure_future(tools["create"].invoke({"prompt": "x", "after_seconds": 60}))
        await travel.settle()
        others = [asyncio.ensure_future(tools["list"].invoke({})) for _ in range(4)]
        await travel(FLUSH_TIMEOUT_S + 0.1)
        assert first.result().value["code"] == "persistence_uncertain"
        await travel(20)  # each waits for the flush of the one before it, and none beyond its own 30 s
        assert [call.done() for call in others] == [True, True, True, True]
        assert {call.result().value["code"] for call in others} == {"persistence_uncertain"}
        gate.set_result(None)
        await travel(1)
        assert [view["prompt"] for view in (await tools["list"].invoke({})).value] == ["x"]


@pytest.mark.asyncio
async def test_a_turn_that_has_ended_is_answered_though_the_session_closes_before_its_end_is_durable(
    travel,
) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(None, gate)  # the message with the start of its turn; then the end
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session = await host.session("s")
        sending = asyncio.ensure_future(session.send("x"))
        await travel.settle()
        assert not sending.done()
        closing = asyncio.ensure_future(session.close())
        await travel(FLUSH_TIMEOUT_S + LAST_TRY_S)
        assert closing.done()
        assert await sending == "re: x"


@pytest.mark.asyncio
async def test_a_quiet_session_has_no_private_timer_after_a_rejected_preflight(travel) -> None:
    """The store's own retry is the only timer; with a store that does not retry there is none."""
    store = ScriptedStore()
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        session = await host.session("s")
        await by_agent(session.agent)["create"].invoke({"prompt": "x", "after_seconds": 1})
        refused = 0

        async def refuse(_session: object) -> bool:
            nonlocal refused
            refused += 1
            return False

        host.ctx.sessions.flush = refuse  # a host of somebody else's, which retries nothing
        await travel(100_000)
        assert refused == 1
        assert session.owner is not None
        assert session.owner.state == "parked"
        del host.ctx.sessions.flush
        session.owner.recompute()
        await travel.settle()
        assert len(session.log.inbox) == 0
        assert session.owner.state == "empty"
