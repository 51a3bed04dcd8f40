"""What the adapter contract needs: the scripted model's words, the adapter under test, and hosts to try it in.

The contract itself is ``schedule_sm.testing.adapter_contract``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from schedule_sm.clock import wall_ms
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.embedded.inbox import TURN_ENDED
from schedule_sm.embedded.live_session import LiveSession
from schedule_sm.embedded.runner import TurnRunner
from schedule_sm.embedded.runtime import ScheduleHost
from schedule_sm.stores.memory import MemoryStore
from schedule_sm.stores.protocol import Append, Store
from schedule_sm.testing.travel import Travel

FRAMING: Final = "[SCHEDULE REMINDER]\n"
"""How the text of a reminder begins."""


@dataclass(frozen=True)
class Call:
    """One tool call of a response of the scripted model."""

    name: str
    arguments: object
    """JSON text exactly as a model would send it, or a mapping."""
    call_id: str


@dataclass(frozen=True)
class Request:
    """What the model is asked with, read from the framework's own request to its model."""

    texts: Sequence[str]
    """Every user text that the model sees, in order."""
    results: Sequence[str]
    """Contents of the tool results behind the last user text, in order."""
    tools: Mapping[str, Mapping[str, Any]]
    """JSON schema of the arguments as the model is shown it, by tool name."""


Reply: TypeAlias = "str | Sequence[Call]"
"""A final text, or the calls of one response."""
Script: TypeAlias = Callable[[Request], Awaitable[Reply]]
"""The scripted model."""


class Adapter(Protocol):
    """What a test module says of its framework."""

    @property
    def name(self) -> str:
        """For messages."""

    def runner(self, script: Script, own_tools: Sequence[str] = ()) -> TurnRunner:
        """Return a runner over ONE agent of the framework, whose offline model answers by ``script``.

        The agent itself has a tool, with any schema, under each of the names ``own_tools``.
        """


class Suite:
    """The adapter under test, with clocks that only the checks move."""

    def __init__(self, adapter: Adapter, travel: Travel) -> None:
        """Try ``adapter``."""
        self.adapter = adapter
        self.travel = travel

    @asynccontextmanager
    async def host(
        self, script: Script, store: Store | None = None, own_tools: Sequence[str] = ()
    ) -> AsyncIterator[ScheduleHost]:
        """Open a host over ``store`` (in memory by default) whose turns the adapter's new runner runs."""
        runner = self.adapter.runner(script, own_tools)
        async with ScheduleHost.open(store=store or MemoryStore(), runner=runner) as host:
            yield host

    @asynccontextmanager
    async def session(self, script: Script, store: Store | None = None) -> AsyncIterator[LiveSession]:
        """Open a host and in it the session ``"s"``."""
        async with self.host(script, store) as host:
            yield await host.session("s")


class Scripted:
    """A model that gives one reply after the other and keeps what it was asked; then it echoes the last text."""

    def __init__(self, *replies: Reply) -> None:
        """Give ``replies`` in order."""
        self._replies = list(replies)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        """Answer ``request``."""
        self.requests.append(request)
        return self._replies.pop(0) if self._replies else f"re: {request.texts[-1]}"


def create(call_id: str, prompt: str = "stretch", after_seconds: int = 60) -> Call:
    """Return a good call of schedule_create, its arguments as JSON text."""
    return Call("schedule_create", json.dumps({"prompt": prompt, "after_seconds": after_seconds}), call_id)


def operations(live: LiveSession) -> list[str]:
    """Return the operations of the session's schedule changes, in order."""
    return [event["data"]["operation"] for event in live.events if event["type"] == SCHEDULE_CHANGE]


def ended(live: LiveSession) -> list[dict[str, Any]]:
    """Return the data of the session's ``turn/ended`` events, in order."""
    return [event["data"] for event in live.events if event["type"] == TURN_ENDED]


async def after_a_crash(live: LiveSession, store: Store) -> Store:
    """Fill ``store`` with what a crash at this moment would leave of a session, everything so far durable."""
    await live.log.writer.flush()
    info = await store.acquire(live.id, wall_ms())
    await store.append([Append(info.id, info.epoch, 0, live.events.stored(), 0, let_go=True)])
    return store
