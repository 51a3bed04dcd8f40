"""A store and a runner that do what a test tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.tool_spec import ToolSpec


class ScriptedStore(MemoryStore):
    """Answers appends by a script; an empty script commits.

    ``UNKNOWN`` commits nothing, ``"lost"`` commits and answers UNKNOWN, ``"raise"`` raises, a future is awaited first.
    """

    def __init__(self, *script: Any) -> None:
        super().__init__()
        self.script: list[Any] = list(script)
        self.seen: list[Append] = []
        self.always: Any = None

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        self.seen += [append for append in batch if append.events]
        step = self.script.pop(0) if self.script else self.always
        if isinstance(step, asyncio.Future):
            await step
            step = None
        if step == "raise":
            raise OSError("a foreign store's own fault")
        if isinstance(step, Outcome):
            await asyncio.sleep(0)
            return [step] * len(batch)
        outcomes = await super().append(batch)
        return [Outcome.UNKNOWN] * len(batch) if step == "lost" else outcomes


class ScriptedRunner:
    """Answers ``re: <text>``; ``on_turn`` may do anything first, such as raise or call a tool."""

    format = "scripted/1"

    def __init__(
        self, on_turn: Callable[[str, Sequence[ToolSpec]], Awaitable[str | None]] | None = None
    ) -> None:
        self.on_turn = on_turn
        self.histories: list[list[Any]] = []
        self.running = 0

    @property
    def texts(self) -> list[str]:
        """The user messages of the turns so far."""
        return [history[-1]["text"] for history in self.histories]

    def user_message(self, text: str, message_id: str) -> JsonValue:
        return {"text": text, "id": message_id}

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        self.running += 1
        assert self.running == 1, "two turns at once"
        try:
            self.histories.append(list(history))
            text = self.histories[-1][-1]["text"]
            reply = None if self.on_turn is None else await self.on_turn(text, tools)
            reply = reply or f"re: {text}"
            return TurnOutput([{"said": reply}], reply)
        finally:
            self.running -= 1


def tool(tools: Sequence[ToolSpec], name: str) -> ToolSpec:
    """Return the tool called ``schedule_<name>``."""
    return next(spec for spec in tools if spec.name == f"schedule_{name}")


def by_agent(agent: Any) -> dict[str, ToolSpec]:
    """Return an agent's tools, by name, as a turn gets them."""
    return {spec.name.removeprefix("schedule_"): ToolSpec(spec, agent) for spec in agent.ctx.tools}


def types_of(session: Any) -> list[str]:
    """Return the types of a session's events, changes by their operation."""
    return [
        event["data"]["operation"] if event["type"] == "schedule/change" else event["type"]
        for event in session.events
    ]
