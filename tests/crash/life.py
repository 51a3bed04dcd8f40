"""One life of a host process: the real embedded host on a real store, busy until it is killed or closes.

Virtual time, so that an hour takes a moment; what the host confirmed to anybody goes to a witness file at once, by
``write(2)``, which a SIGKILL does not take back. ``judge`` holds the log against it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from schedule_sm.embedded import LiveSession, ScheduleHost, TurnOutput
from schedule_sm.embedded.inbox import TURN_ENDED, TURN_STARTED
from schedule_sm.stores.failpoints import set_failpoint_hook
from schedule_sm.testing.travel import START, Travel, run_virtual
from schedule_sm.tool_spec import ToolSpec
from tests.crash.kinds import open_store
from tests.embedded.scripted import by_agent, tool

MAIN, OTHER = "main", "other"
LIFE_TIME_S = 3_600
"""Each life begins so much later than the one before; what came due meanwhile is overdue then."""


@dataclass(frozen=True)
class Plan:
    """What one life does and how it ends."""

    path: str
    witness: str
    number: int
    """The how-many-th life on this file; sets the wall clock."""
    seed: int
    steps: int = 14
    kill_at: str | None = None
    """A failpoint; ``None``: not there."""
    kill_hit: int = 1
    kill_after_ms: float | None = None
    """Killed after so many real ms, wherever it is."""
    is_forgetful: bool = False
    """On the host with an in-memory inbox."""


class Witness:
    """Writes down what was confirmed, one JSON line each.

    A kill cuts the write of a long line between two pages; the next life goes on behind the last whole line.
    """

    def __init__(self, path: str, life: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._file, Path(path).read_bytes().rfind(b"\n") + 1)
        self._life = life

    def say(self, what: str, **facts: Any) -> None:
        os.write(self._file, json.dumps({"what": what, "life": self._life, **facts}).encode() + b"\n")


class Killer:
    """The failpoint hook: counts, and kills this process where it was told to."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.hits: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self.hits[name] += 1
        if name == self._plan.kill_at and self.hits[name] == self._plan.kill_hit:
            os.kill(os.getpid(), signal.SIGKILL)


class Runner:
    """Carries out the tool call that a user message names as JSON; ``hold`` keeps the turn for half a minute."""

    format = "crash/1"

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def user_message(self, text: str, message_id: str) -> Any:
        return {"text": text, "id": message_id}

    async def run_turn(
        self, session_id: str, history: Sequence[Any], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        text, message = history[-1]["text"], history[-1]["id"]
        self._witness.say("offered", session=session_id, message=message, text=text)
        if text.startswith("hold"):
            await asyncio.sleep(30)
        elif text.startswith("{"):
            call = json.loads(text)
            await invoke(self._witness, session_id, tool(tools, call["tool"]), call["arguments"])
        return TurnOutput([{"said": text}], f"re: {text}")


async def invoke(witness: Witness, session_id: str, spec: ToolSpec, arguments: dict[str, Any]) -> Any:
    """Call a tool and write down what it confirmed."""
    value = (await spec.invoke(arguments)).value
    if isinstance(value, list):
        witness.say("listed", session=session_id, ids=[view["id"] for view in value])
    elif value.get("deleted"):
        witness.say("deleted", session=session_id, id=value["id"])
    elif "scheduledAt" in value:
        witness.say(
            "created", session=session_id, id=value["id"], prompt=value["prompt"], at=value["scheduledAt"]
        )
    else:
        witness.say("refused", session=session_id, code=value["code"])
    return value


class Life:
    """A random but repeatable course of things."""

    def __init__(self, plan: Plan, travel: Travel, witness: Witness) -> None:
        self._plan = plan
        self._travel = travel
        self._witness = witness
        self._random = random.Random(plan.seed)
        self._sessions: dict[str, LiveSession] = {}
        self._holding: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        store = await open_store(Path(self._plan.path))
        async with ScheduleHost.open(store=store, runner=Runner(self._witness)) as host:
            for session_id in (MAIN, OTHER):
                await self._open(host, session_id)
            for step in range(self._plan.steps):
                await self._step(host, step)
            await self._end_holding()
            await self._travel(LIFE_TIME_S / 2)
        await store.close()
        self._witness.say("closed")

    async def _open(self, host: ScheduleHost, session_id: str) -> None:
        session = self._sessions[session_id] = await host.session(session_id)
        cut_off = _cut_off(session) if len(session.log.inbox) else None
        self._witness.say("opened", session=session_id, events=len(session.events), cut_off=cut_off)

    async def _step(self, host: ScheduleHost, step: int) -> None:
        session = self._sessions[self._random.choice((MAIN, MAIN, OTHER))]
        match self._random.choice(
            ("create",) * 3 + ("said", "delete", "list", "hold", "wait", "wait", "both", "again")
        ):
            case "create":
                await self._call(session, "create", self._wish(step))
            case "said":
                await self._say(session, json.dumps({"tool": "create", "arguments": self._wish(step)}))
            case "delete":
                ids = [f"schedule-{self._random.randint(1, 9)}", *session.log._shared.projection.active]
                await self._call(session, "delete", {"id": self._random.choice(ids)})
            case "list":
                await self._call(session, "list", {})
            case "hold":
                self._holding.append(
                    asyncio.ensure_future(self._send(session, f"hold {self._plan.number}.{step}"))
                )
                await self._travel.settle()
            case "wait":
                await self._travel(self._random.choice((1, 5, 20, 90)))
            case "both":
                await asyncio.gather(
                    *(self._call(each, "create", self._wish(step)) for each in self._sessions.values()),
                    self._call(session, "list", {}),
                )
            case _:
                await self._end_holding()
                await session.close()
                await self._open(host, session.id)

    def _wish(self, step: int) -> dict[str, Any]:
        seconds = self._random.choice((1, 2, 10, 60, 7_200))
        # with long prompts a checkpoint takes long enough to be hit
        length = self._random.choice((0, 0, 0, 20_000))
        prompt = f"{self._plan.number}.{step} \x00\ud800é{'x' * length}"
        return {"prompt": prompt, "after_seconds": seconds}

    async def _call(self, session: LiveSession, name: str, arguments: dict[str, Any]) -> None:
        await invoke(self._witness, session.id, by_agent(session.agent)[name], arguments)

    async def _say(self, session: LiveSession, text: str) -> None:
        sending = asyncio.ensure_future(self._send(session, text))
        await self._travel.settle()
        while not sending.done():  # it waits behind a turn that holds, perhaps one of an earlier life
            await self._travel(31)
        await sending

    async def _send(self, session: LiveSession, text: str) -> None:
        await session.send(text)
        self._witness.say("replied", session=session.id, text=text)

    async def _end_holding(self) -> None:
        if self._holding:
            while not all(sending.done() for sending in self._holding):
                await self._travel(31)
            await asyncio.gather(*self._holding)
            self._holding.clear()


def _cut_off(session: LiveSession) -> str | None:
    """Return the message whose turn was started and not ended, from the log alone."""
    started: str | None = None
    for event in session.events[session.header.seed_length :]:
        if event["type"] == TURN_STARTED:
            started = event["data"]["message"]
        elif event["type"] == TURN_ENDED:
            started = None
    return started


def prepare_to_die(plan: Plan) -> Killer:
    """Kill this process where ``plan`` says; returns what counts the failpoints passed."""
    logging.disable(logging.CRITICAL)
    killer = Killer(plan)
    set_failpoint_hook(killer)
    if plan.kill_after_ms is not None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process wherever it is, as SIGKILL does
        signal.setitimer(signal.ITIMER_REAL, plan.kill_after_ms / 1_000)
    return killer


def live(plan: Plan) -> None:
    """Live ``plan`` to its end; a killed process does not return."""
    witness = Witness(plan.witness, plan.number)
    killer = prepare_to_die(plan)

    async def main(travel: Travel) -> None:
        await Life(plan, travel, witness).run()

    run_virtual(main, START + timedelta(seconds=LIFE_TIME_S * plan.number))
    witness.say("hits", hits=dict(killer.hits))
