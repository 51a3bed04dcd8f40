"""A host that does nothing but what the contract asks: sessions and inboxes in memory, agents that are always idle.

The rows that say "in memory" are measured on it, so that their figures are the plugin's own and not a host's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from schedule_sm import plugin
from schedule_sm.clock import wall_ms
from schedule_sm.host import FollowupMessage, Session

Flush = Callable[[object], Awaitable[bool]]


async def flush_yielding_once(_session: object) -> bool:
    """Confirm after one turn of the loop, as a store does that has nothing to write."""
    await asyncio.sleep(0)
    return True


async def flush_never_suspending(_session: object) -> bool:
    """Confirm at once."""
    return True


class LeanScope:
    """Tools and handlers of one agent or of the host."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}
        self.tools = self
        self._handlers: dict[str, list[Callable[..., object]]] = {}
        self._closers: list[Callable[[], Awaitable[None] | None]] = []

    def register(self, tool: Any) -> Callable[[], None]:
        self.by_name[tool.name] = tool
        return lambda: self.by_name.pop(tool.name, None)

    def on(self, event: str, handler: Callable[..., object]) -> Callable[[], None]:
        handlers = self._handlers.setdefault(event, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler)

    def emit(self, event: str, *news: object) -> None:
        for handler in tuple(self._handlers.get(event, ())):
            handler(*news)

    def defer(self, close: Callable[[], Awaitable[None] | None]) -> None:
        self._closers.append(close)

    async def close(self) -> None:
        while self._closers:
            ended = self._closers.pop()()
            if ended is not None:
                await ended


class LeanSession:
    """A log that is a list of plain events."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.header = SimpleNamespace(seed_length=0)
        self.events: list[dict[str, Any]] = []

    def append(self, type: str, data: Any) -> None:
        self.events.append({"seq": len(self.events), "type": type, "time": wall_ms(), "data": data})


def _release() -> None:
    """Give a reservation back: nothing else ever wants admission here."""


class LeanAgent:
    """Always idle; each followup is handed to ``on_followup``."""

    status = "idle"

    def __init__(self, session: Session, on_followup: Callable[[FollowupMessage], object]) -> None:
        self.id = session.id
        self.session = session
        self.ctx = LeanScope()
        self.followup = on_followup

    def reserve_turn_admission(self) -> Callable[[], None]:
        return _release

    async def when_idle(self) -> None:
        return None


class LeanHost(LeanScope):
    """The plugin's context with the services it asks for; ``async with`` loads and unloads the plugin."""

    def __init__(self, flush: Flush = flush_yielding_once) -> None:
        super().__init__()
        self._live: dict[str, LeanAgent] = {}
        self.get = self._live.get
        self.agents = self
        self.sessions = SimpleNamespace(flush=flush, list=lambda: [a.session for a in self._live.values()])
        self.session_persistence = True

    def is_root(self, agent: object) -> bool:
        return True

    def announce(self, agent: LeanAgent) -> None:
        """Make ``agent`` live and tell the plugin."""
        self._live[agent.id] = agent
        self.emit("agent/created", agent)

    async def __aenter__(self) -> LeanHost:
        plugin.apply(self)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()
