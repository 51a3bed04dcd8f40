"""A host of one's own, written from ``schedule_sm/host.py`` alone: everything in memory, nothing more."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from types import SimpleNamespace


class Registry:
    def __init__(self):
        self.by_name = {}

    def register(self, tool):
        if tool.name in self.by_name:
            raise ValueError(f"the name {tool.name} is taken")
        self.by_name[tool.name] = tool
        return lambda: self.by_name.pop(tool.name, None)


class Scope:
    def __init__(self):
        self.tools, self._handlers, self._closers = Registry(), {}, []

    def on(self, event, handler):
        handlers = self._handlers.setdefault(event, [])
        handlers.append(handler)
        return lambda: handlers.remove(handler) if handler in handlers else None

    def emit(self, event, *news):
        for handler in tuple(self._handlers.get(event, ())):
            handler(*news)

    def defer(self, close):
        self._closers.append(close)

    async def close(self):
        while self._closers:
            ended = self._closers.pop()()
            if inspect.isawaitable(ended):
                await ended


class Session:
    def __init__(self, host, id, seed_length=0):
        self.id, self.header = id, SimpleNamespace(seed_length=seed_length)
        self.events, self.durable, self._host = [], 0, host

    def append(self, type, data):
        for check in tuple(self._host.guards):
            check(self, type, data)
        now_ms = time.time_ns() // 1_000_000
        self.events.append({"seq": len(self.events), "type": type, "time": now_ms, "data": data})


class Agent:
    """An agent with an in-memory inbox; its turn loop is one task, and a turn is ``run_turn(agent, text)``."""

    def __init__(self, host, id, session, run_turn, is_root):
        self.id, self.session, self.ctx, self.is_root = id, session, Scope(), is_root
        self.status, self.inbox, self.turns = "idle", deque(), []
        self._host, self._run_turn, self._held = host, run_turn, set()
        self._changed = asyncio.Event()
        self._loop = asyncio.create_task(self._live(), name=f"turns of {id}")

    @property
    def _is_free(self):
        return self.status == "idle" and not self._held and not self.inbox

    def _tell(self):
        self._changed.set()
        self._changed = asyncio.Event()

    def send(self, text):
        self.inbox.append(text)
        self._tell()

    def followup(self, message):
        self.send(message.text)

    def reserve_turn_admission(self):
        if not self._is_free:
            return None
        key = object()
        self._held.add(key)

        def release():
            self._held.discard(key)
            self._tell()

        return release

    async def when_idle(self):
        while not self._is_free:
            await self._changed.wait()

    def _set_status(self, status):
        self.status = status
        self._tell()
        self.ctx.emit("agent/status", status)

    async def _live(self):
        while True:
            while self._held or not self.inbox:
                await self._changed.wait()
            text = self.inbox.popleft()
            self._set_status("running")
            self.turns.append(text)
            await self._run_turn(self, text)
            self._set_status("idle")

    async def close(self):
        if self._host.live.get(self.id) is self:
            del self._host.live[self.id]
        await self.ctx.close()
        self._loop.cancel()
        await asyncio.wait({self._loop})


class MinimalHost(Scope):
    """The plugin's context, and at once the services ``agents`` and ``sessions``."""

    def __init__(self):
        super().__init__()
        self.agents, self.sessions, self.session_persistence = self, self, True
        self.live, self.guards, self.known = {}, [], []
        self.get, self.list, self.is_root = self.live.get, self.known.copy, lambda agent: agent.is_root

    def guard_append(self, check):
        self.guards.append(check)
        return lambda: self.guards.remove(check) if check in self.guards else None

    async def flush(self, session):
        wanted = len(session.events)
        await asyncio.sleep(0)
        session.durable = max(session.durable, wanted)
        return True

    def session(self, id, seed_length=0):
        self.known.append(Session(self, id, seed_length))
        return self.known[-1]

    def create_agent(self, id, session, run_turn=lambda agent, text: asyncio.sleep(0), *, is_root=True):
        agent = self.live[id] = Agent(self, id, session, run_turn, is_root)
        self.emit("agent/created", agent)
        return agent
