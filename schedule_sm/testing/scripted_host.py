"""``ScriptedHost``: a host whose every answer is scripted, and which records every host call in order.

It has a clock of its own, so nothing waits: ``advance`` moves wall clock and timers together, ``set_clock`` the wall
clock alone. Its words are those of the conformance vectors (``tests/conformance/README.md``).
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.host import FollowupMessage, Tool
from schedule_sm.owner import ScheduleOwner
from schedule_sm.tools import register_schedule_tools

_NUMBERS = count(1)


class ScriptedFailureError(RuntimeError):
    """What a scripted ``throw`` or ``reject`` raises."""


class FakeTimer:
    """A pending call of :class:`FakeClock`."""

    def __init__(self, clock: FakeClock, due_ms: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` when ``clock``'s own time reaches ``due_ms``."""
        self._clock = clock
        self.due_ms = due_ms
        self.callback = callback

    def cancel(self) -> None:
        """Drop it."""
        if self in self._clock.timers:
            self._clock.timers.remove(self)


class FakeClock:
    """Wall clock and timers as numbers; there is no watcher, so a jump is noticed when a timer ends."""

    def __init__(self, wall_ms: int, *, fails: bool = False) -> None:
        """Read ``wall_ms``, or raise at every reading."""
        self.wall_ms = wall_ms
        self.fails = fails
        self.elapsed_ms = 0
        self.timers: list[FakeTimer] = []

    def now_ms(self) -> int:
        """Return the scripted wall clock."""
        if self.fails:
            msg = "the clock cannot be read"
            raise ScriptedFailureError(msg)
        return self.wall_ms

    def call_later(
        self, delay_ms: int, callback: Callable[[], None], *, since_ms: int | None = None
    ) -> FakeTimer:
        """Arm a timer."""
        timer = FakeTimer(self, self.elapsed_ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def watch(self, on_jump: Callable[[], None]) -> Callable[[], None]:
        """Watch nothing."""
        return lambda: None

    @property
    def next_timer(self) -> FakeTimer | None:
        """The timer that ends first."""
        return min(self.timers, key=lambda timer: timer.due_ms, default=None)

    def pass_time(self, ms: int) -> None:
        """Move wall clock and timers on."""
        self.wall_ms += ms
        self.elapsed_ms += ms


class Script:
    """Outcomes of successive calls of one host function; the default once they are used up."""

    def __init__(self, outcomes: Sequence[str | Mapping[str, Any]], default: str) -> None:
        """Play ``outcomes`` in order, then ``default``."""
        self._outcomes = deque(outcomes)
        self._default = default

    def next(self) -> Mapping[str, Any]:
        """Return the next outcome as a mapping with ``outcome``, ``hold`` and ``during``."""
        item = self._outcomes.popleft() if self._outcomes else self._default
        given: Mapping[str, Any] = {"outcome": item} if isinstance(item, str) else item
        return {"outcome": self._default, "hold": None, "during": (), **given}


class _Header:
    def __init__(self, seed_length: int | None) -> None:
        if seed_length is not None:
            self.seed_length = seed_length


class ScriptedSession:
    """A session whose log is a plain list."""

    def __init__(self, host: ScriptedHost, log: Sequence[Mapping[str, Any]], seed_length: int | None) -> None:
        """Begin with a copy of ``log``."""
        self._host = host
        self.id = f"scripted-{next(_NUMBERS)}"
        self.header = _Header(seed_length)
        self.events: list[Any] = [dict(event) for event in log]

    def append(self, type: str, data: Any) -> None:  # noqa: A002 - the host contract's names
        """Append for the package: recorded and scripted."""
        self._host.play_append(type, data)

    def write(self, type: str, data: Any) -> None:  # noqa: A002 - as above
        """Append for somebody else: neither recorded nor scripted."""
        event = {"type": type, "seq": len(self.events), "time": self._host.clock.wall_ms, "data": data}
        self.events.append(event)


class _Tools:
    def __init__(self) -> None:
        self.by_name: dict[str, Tool] = {}

    def register(self, tool: Tool) -> Callable[[], None]:
        if tool.name in self.by_name:
            msg = f"a tool named {tool.name!r} is registered already"
            raise ValueError(msg)
        self.by_name[tool.name] = tool

        def unregister() -> None:
            self.by_name.pop(tool.name, None)

        return unregister


class ScriptedScope:
    """A scope with tools, events and nothing to unwind."""

    def __init__(self) -> None:
        """Start without handlers."""
        self.tools = _Tools()
        self._handlers: dict[str, list[Callable[..., object]]] = {}

    def on(self, event: str, handler: Callable[..., object]) -> Callable[[], None]:
        """Subscribe."""
        handlers = self._handlers.setdefault(event, [])
        handlers.append(handler)

        def dispose() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return dispose

    def emit(self, event: str, *arguments: object) -> None:
        """Tell every subscriber."""
        for handler in tuple(self._handlers.get(event, ())):
            handler(*arguments)

    def defer(self, close: Callable[[], object]) -> None:
        """Forget ``close``: a test disposes by itself."""


class ScriptedAgent:
    """An agent that answers as the script says."""

    def __init__(self, host: ScriptedHost, id: str) -> None:  # noqa: A002 - the host contract's name
        """Work in the host's one session."""
        self._host = host
        self.id = id
        self.session = host.session
        self.ctx = ScriptedScope()
        self.status = "idle"

    def reserve_turn_admission(self) -> Callable[[], None] | None:
        """Grant or refuse, as scripted."""
        return self._host.play_reserve()

    def followup(self, message: FollowupMessage) -> None:
        """Queue or raise, as scripted."""
        self._host.play_followup(message)

    async def when_idle(self) -> None:
        """Return when the script says so."""
        await self._host.play_when_idle()


class _Context(ScriptedScope):
    """The plugin's scope, and at once the two services that it asks."""

    session_persistence = True

    def __init__(self, host: ScriptedHost) -> None:
        super().__init__()
        self._host = host
        self.sessions = self
        self.agents = self

    def list(self) -> list[ScriptedSession]:
        return [self._host.session]

    async def flush(self, session: object) -> bool:
        return await self._host.play_flush()

    def get(self, id: str) -> ScriptedAgent | None:  # noqa: A002 - the host contract's name
        return self._host.agent if self._host.is_live and id == self._host.agent.id else None

    def is_root(self, agent: object) -> bool:
        return agent is self._host.agent

    def guard_append(self, check: object) -> Callable[[], None]:
        return lambda: None


class _WarningTap(logging.Handler):
    """One handler for all hosts, which stays.

    With one each, a host that is collected while a record is handed round would take its handler from the list, and the
    next handler would be skipped.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.hosts: weakref.WeakValueDictionary[str, ScriptedHost] = weakref.WeakValueDictionary()

    def emit(self, record: logging.LogRecord) -> None:
        host = self.hosts.get(getattr(record, "session_id", ""))
        if host is not None:
            host.warnings.append(getattr(record, "kind", "?"))


_WARNING_TAP = _WarningTap()


class ScriptedHost:
    """One agent, one session, a scripted answer to every host call, and a record of all of them.

    Make it inside a running event loop. ``trace`` holds the host calls in the vectors' form, ``appended`` the data of
    the events that the package appended, ``followups`` the texts queued, ``warnings`` the kinds of diagnostics.
    """

    def __init__(
        self,
        *,
        clock_ms: int,
        log: Sequence[Mapping[str, Any]] = (),
        seed_length: int | None = None,
        live: bool = True,
        script: Mapping[str, Sequence[str | Mapping[str, Any]]] | None = None,
        clock_fails: bool = False,
        on_wake: Callable[[], None] | None = None,
    ) -> None:
        """Begin at ``clock_ms`` with ``log``; ``on_wake`` stands in for the owner when only tools are tested."""
        script = script or {}
        self.clock = FakeClock(clock_ms, fails=clock_fails)
        self.session = ScriptedSession(self, log, seed_length)
        self.agent = ScriptedAgent(self, f"{self.session.id}/agent")
        self.ctx = _Context(self)
        self.is_live = live
        self.trace: list[dict[str, Any]] = []
        self.appended: list[Any] = []
        self.followups: list[str] = []
        self.messages: list[FollowupMessage] = []
        self.warnings: list[str] = []
        self._flushes = Script(script.get("flush", ()), "ok")
        self._reserves = Script(script.get("reserve", ()), "grant")
        self._followups = Script(script.get("followup", ()), "ok")
        self._appends = Script(script.get("append", ()), "ok")
        self._held: dict[str, asyncio.Future[str]] = {}
        self._idle_waits: list[asyncio.Future[None]] = []
        self._on_wake = on_wake
        self._owner: ScheduleOwner | None = None
        self._unregister: Callable[[], None] | None = None
        self._disposal: asyncio.Task[None] | None = None
        _WARNING_TAP.hosts[self.session.id] = self
        logging.getLogger("schedule_sm").addHandler(_WARNING_TAP)

    @property
    def owner(self) -> ScheduleOwner:
        """The owner, made on first use."""
        if self._owner is None:
            self._owner = ScheduleOwner(self.ctx, self.agent, clock=self.clock)
        return self._owner

    @property
    def armed_ms(self) -> int | None:
        """Time left on the timer that ends first."""
        timer = self.clock.next_timer
        return None if timer is None else timer.due_ms - self.clock.elapsed_ms

    @property
    def disposed(self) -> bool | None:
        """Whether disposing has completed; ``None`` until it began."""
        return None if self._disposal is None else self._disposal.done()

    def recompute(self) -> None:
        """Be notified by the tools."""
        if self._on_wake is not None:
            self._on_wake()
        else:
            self.owner.recompute()

    async def call_tool(self, name: str, arguments: object, *, caller: str = "own") -> tuple[object, str]:
        """Call a tool, on behalf of another agent if ``caller`` is ``"other"``; return value and content."""
        if self._unregister is None:
            self._unregister = register_schedule_tools(self.ctx, self.agent, self, clock=self.clock)
        agent = self.agent if caller == "own" else ScriptedAgent(self, f"{self.session.id}/other")
        result = await self.agent.ctx.tools.by_name[name].execute(arguments, agent)
        return result.value, result.content

    # -- actions ----------------------------------------------------------------------------------------------

    def act(self, step: Mapping[str, Any]) -> None:
        """Carry out one action now, synchronously (any but ``advance``)."""
        match step["do"]:
            case "start":
                self.owner.start()
            case "trigger":
                self.owner.recompute()
            case "set_clock":
                self.clock.wall_ms = step["ms"]
            case "idle" | "idle_fail" as how:
                self._end_idle_waits(fail=how == "idle_fail")
            case "release":
                self._held.pop(step["hold"]).set_result(step.get("outcome", "ok"))
            case "append":
                self.session.write(step.get("type", SCHEDULE_CHANGE), step["data"])
            case "depart":
                self.is_live = False
            case "dispose":
                self._dispose()
            case unknown:
                msg = f"unknown action {unknown!r}"
                raise ValueError(msg)

    async def do(self, step: Mapping[str, Any]) -> None:
        """Carry out one action, then settle."""
        if step["do"] == "advance":
            await self._advance(step["ms"])
        else:
            self.act(step)
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing is ready to run."""
        ready: Sequence[object] | None = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:  # another loop implementation: turn it often enough for any chain of calls here
            for _ in range(200):
                await asyncio.sleep(0)
            return
        await asyncio.sleep(0)
        while ready:  # noqa: ASYNC110 - quiet is a state of the loop itself; no event tells of it
            await asyncio.sleep(0)

    async def _advance(self, ms: int) -> None:
        end_ms = self.clock.elapsed_ms + ms
        while (timer := self.clock.next_timer) is not None and timer.due_ms <= end_ms:
            self.clock.pass_time(max(timer.due_ms - self.clock.elapsed_ms, 0))
            timer.cancel()
            timer.callback()
            await self.settle()
        self.clock.pass_time(end_ms - self.clock.elapsed_ms)

    def _dispose(self) -> None:
        self.owner.request_stop()
        if self._unregister is not None:
            self._unregister()
            self._unregister = None
        if self._disposal is None:
            self._disposal = asyncio.get_running_loop().create_task(self.owner.wait_stopped())

    def _end_idle_waits(self, *, fail: bool) -> None:
        waits, self._idle_waits = self._idle_waits, []
        for wait in waits:
            if wait.done():
                continue
            if fail:
                wait.set_exception(ScriptedFailureError("the idle wait failed"))
            else:
                wait.set_result(None)

    # -- host calls -------------------------------------------------------------------------------------------

    def _during(self, outcome: Mapping[str, Any]) -> None:
        for action in outcome["during"]:
            self.act(action)

    async def play_flush(self) -> bool:
        """Play one flush."""
        self.trace.append({"call": "flush"})
        given = self._flushes.next()
        self._during(given)
        outcome = given["outcome"]
        if given["hold"] is not None:
            held = self._held[given["hold"]] = asyncio.get_running_loop().create_future()
            outcome = await held
        if outcome == "reject":
            msg = "the flush was rejected"
            raise ScriptedFailureError(msg)
        return bool(outcome == "ok")

    def play_reserve(self) -> Callable[[], None] | None:
        """Play one reservation."""
        given = self._reserves.next()
        granted = given["outcome"] == "grant"
        self.trace.append({"call": "reserve", "result": "granted" if granted else "busy"})
        self._during(given)
        return (lambda: self.trace.append({"call": "release"})) if granted else None

    def play_followup(self, message: FollowupMessage) -> None:
        """Play one followup."""
        given = self._followups.next()
        call = {"call": "followup", "id": message.metadata["schedule_id"]}
        threw = given["outcome"] == "throw"
        self.trace.append({**call, "result": "threw"} if threw else call)
        self._during(given)
        if threw:
            msg = "the followup failed"
            raise ScriptedFailureError(msg)
        self.followups.append(message.text)
        self.messages.append(message)

    def play_append(self, type: str, data: Any) -> None:  # noqa: A002 - the host contract's names
        """Play one append of the package."""
        given = self._appends.next()
        schedule_id = data["schedule"]["id"] if data["operation"] == "create" else data["id"]
        call = {"call": "append", "operation": data["operation"], "id": schedule_id}
        threw = given["outcome"] == "throw"
        self.trace.append({**call, "result": "threw"} if threw else call)
        self._during(given)
        if threw:
            msg = "the append failed"
            raise ScriptedFailureError(msg)
        self.session.write(type, data)
        self.appended.append(data)

    async def play_when_idle(self) -> None:
        """Play one idle wait."""
        self.trace.append({"call": "when_idle"})
        wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle_waits.append(wait)
        await wait
