"""The real host, tools and owner on a memory store with faults, on virtual time: what the state machine moves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any

from schedule_sm.embedded import LiveSession, ScheduleHost, TurnOutput
from schedule_sm.embedded.errors import HostClosedError, SessionExistsError, TurnFailedError
from schedule_sm.embedded.inbox import MESSAGE
from schedule_sm.stores.errors import SessionHeldError, SessionUnknownError, StoreClosedError
from schedule_sm.stores.memory import MemoryPlace, MemoryStore, _Kept
from schedule_sm.stores.protocol import Append, Outcome
from schedule_sm.testing.travel import travelling
from schedule_sm.testing.virtual_loop import VirtualLoop
from schedule_sm.tool_spec import ToolSpec
from tests.embedded.scripted import by_agent
from tests.model.promise import Durable, Promise

STORE_FAULTS = ("unknown", "lost", "raise", "hang", "late")
REFUSALS = ("message", "dispatch", "create", "delete")


class FaultyStore(MemoryStore):
    """``fault``: every append is unknown, committed but unknown, raises, hangs until that ends, or commits after it."""

    def __init__(self, place: MemoryPlace) -> None:
        super().__init__(place)
        self.fault: str | None = None
        self.is_dead = False
        self._ended = asyncio.Event()

    def end_fault(self) -> None:
        self.fault = None
        self._ended.set()
        self._ended = asyncio.Event()

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        outcomes = await self._answer(batch)
        if self.is_dead:
            raise StoreClosedError("a store whose process was killed")
        return outcomes

    async def _answer(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        if all(append.let_go and not append.events for append in batch):
            return await super().append(batch)  # no fault keeps an owner that gives up
        match self.fault:
            case "unknown":
                await asyncio.sleep(0)
                return [Outcome.UNKNOWN] * len(batch)
            case "lost":
                await super().append(batch)
                return [Outcome.UNKNOWN] * len(batch)
            case "raise":
                raise OSError("a foreign store's own fault")
            case "hang":
                await self._ended.wait()
            case "late":
                outcomes = await super().append(batch)
                await self._ended.wait()
                return outcomes
        return await super().append(batch)


class Runner:
    """Turns that end at once, or are held until ``let_go``; ``create`` calls the tool inside the turn."""

    format = "model/1"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.running: dict[str, str] = {}
        self.held: list[asyncio.Event] = []
        self.holds_next = False

    def let_go(self) -> None:
        while self.held:
            self.held.pop().set()

    def user_message(self, text: str, message_id: str) -> Any:
        return {"text": text, "id": message_id}

    async def run_turn(
        self, session_id: str, history: Sequence[Any], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        text, message_id = history[-1]["text"], history[-1]["id"]
        self._stage.check_turn(session_id, message_id)
        self.running[session_id] = message_id
        try:
            holds, self.holds_next = text == "hold" or self.holds_next, False
            if holds and not self._stage.is_ending:
                self.held.append(asyncio.Event())
                await self.held[-1].wait()
            elif text == "fail":
                raise RuntimeError("a runner's own fault")
            elif text == "create":
                spec = next(spec for spec in tools if spec.name == "schedule_create")
                await self._stage.called(
                    session_id, "create", spec, {"prompt": "in a turn", "after_seconds": 2}
                )
            return TurnOutput([{"said": text}], f"re: {text}")
        finally:
            del self.running[session_id]


class Stage:
    """Everything of one example: its loop, its clocks, its host, and what was promised."""

    def __init__(self) -> None:
        self._exits = ExitStack()
        self.travel = self._exits.enter_context(travelling())
        self._runner = self._exits.enter_context(asyncio.Runner(loop_factory=VirtualLoop))
        self.place = MemoryPlace()
        self.promises: dict[str, Promise] = {}
        self.live: dict[str, LiveSession] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.calls: list[asyncio.Task[Any]] = []
        self.refused: set[str] = set()
        self.closing: set[asyncio.Task[Any]] = set()
        self.faults: list[str] = []
        self.has_refused_messages = False
        self.is_ending = False
        self.run(self._open())

    def run(self, part: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(part)

    def close(self) -> None:
        self._exits.close()

    # -- the host -------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self.store = FaultyStore(self.place)
        self.turns = Runner(self)
        self._host: AbstractAsyncContextManager[ScheduleHost] = ScheduleHost.open(
            store=self.store, runner=self.turns
        )
        self.host = await self._host.__aenter__()
        self.host.ctx.sessions.guard_append(self._guard)
        self.host.ctx.sessions.on_append(self._appended)

    async def crash(self) -> None:
        """What is durable now is what the next host finds; the old one no longer writes."""
        left = MemoryPlace()
        left.sessions = {i: _Kept(kept.info, list(kept.events)) for i, kept in self.place.sessions.items()}
        self.place = left
        self.store.is_dead = True
        self.store.end_fault()
        await self._leave()
        await self._open()

    async def restart(self) -> None:
        """Close in order, and open again."""
        await self._leave()
        await self.store.close()
        await self._open()

    async def _leave(self) -> None:
        self.turns.let_go()
        closing = asyncio.ensure_future(self._host.__aexit__(None, None, None))
        await self.travel(60)
        assert closing.done(), "the host did not close within its bound"
        await closing
        self.live.clear()
        await self.travel(31)
        assert all(task.done() for task in self.tasks), "a call never ended"
        self.tasks.clear()
        self.calls.clear()

    async def open_session(self, session_id: str) -> None:
        try:
            self.live[session_id] = await self.host.session(session_id)
        except SessionHeldError:
            assert self.closing, f"{session_id} is held, and nobody closes it"
            return
        self.promises.setdefault(session_id, Promise())

    async def fork(self, session_id: str, child_id: str) -> None:
        try:
            self.live[child_id] = await self.host.fork(self.live[session_id], child_id)
        except (SessionExistsError, SessionHeldError, SessionUnknownError):
            return
        self.promises.setdefault(child_id, Promise())

    # -- what is done beside the clock ----------------------------------------------------------------------

    def begin(self, part: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(self._quietly(part))
        self.tasks.append(task)
        return task

    async def _quietly(self, part: Coroutine[Any, Any, Any]) -> None:
        try:
            await part
        except (HostClosedError, TurnFailedError):
            return
        except AssertionError as error:
            self.faults.append(str(error))

    def begin_closing(self, session: LiveSession) -> None:
        task = self.begin(session.close())
        self.closing.add(task)
        task.add_done_callback(self.closing.discard)

    def begin_call(self, session_id: str, name: str, arguments: dict[str, Any]) -> None:
        spec = by_agent(self.live[session_id].agent).get(name)
        if spec is not None:
            self.calls.append(self.begin(self.called(session_id, name, spec, arguments)))

    async def called(self, session_id: str, name: str, spec: ToolSpec, arguments: dict[str, Any]) -> None:
        """Call a tool and note what it said."""
        promise = self.promises[session_id]
        before, confirmed = self.durable(session_id), set(promise.created) - promise.deleted
        value = (await spec.invoke(arguments)).value
        promise.note(name, value, before, confirmed, self.durable(session_id))

    async def turns_of_the_loop(self, count: int | None) -> None:
        """Let the loop turn ``count`` times, or until all is quiet."""
        if count is None:
            await self.travel.settle()
        else:
            for _ in range(count):
                await asyncio.sleep(0)

    # -- what must hold -------------------------------------------------------------------------------------

    def durable(self, session_id: str) -> Durable:
        kept = self.place.sessions.get(session_id)
        return Durable() if kept is None else Durable.read(kept.info, kept.events)

    def check(self) -> None:
        assert not self.faults, self.faults
        for session_id, promise in self.promises.items():
            promise.check(self.durable(session_id))

    async def check_end(self) -> None:
        """Every fault ends; then all that was confirmed comes by itself, once, or after the next opening."""
        self.is_ending = True
        self.refused = set()
        self.store.end_fault()
        self.turns.let_go()
        if (
            self.has_refused_messages
        ):  # a followup that raised is tried again with the next trigger, not before
            for session in self.live.values():
                assert session.owner is not None
                session.owner.recompute()
        await self.travel(61)  # twice the longest back-off: what waited has come without anybody's asking
        self.check()
        for session_id, session in self.live.items():
            if session.owner is not None and session.owner.state != "faulted":
                self.promises[session_id].check_end(self.durable(session_id), self.travel.now_ms)
        await self.restart()
        for session_id in self.promises:
            await self.open_session(session_id)
        await self.travel(100_000)
        self.check()
        for session_id, promise in self.promises.items():
            promise.check_end(self.durable(session_id), self.travel.now_ms)
        await self.restart()
        await self._leave()

    def check_turn(self, session_id: str, message_id: str) -> None:
        """A reminder's turn runs only when its dispatch is durable, and no two turns run at once."""
        if session_id in self.turns.running:
            self.faults.append("two turns at once")
        schedule_id = message_id.partition("/")[2]
        if schedule_id.startswith("schedule-") and schedule_id not in self.durable(session_id).ended:
            self.faults.append(f"the turn of {message_id} ran before its dispatch was durable")

    def _appended(self, session: Any, event: dict[str, Any]) -> None:
        if (
            event["type"] == MESSAGE
            and "schedule_id" in event["data"]["metadata"]
            and session.id in self.turns.running
        ):
            self.faults.append(f"{event['data']['id']} was queued into a running turn")

    def _guard(self, session: Any, type: str, data: Any) -> None:
        kind = data.get("operation") if type == "schedule/change" else None
        if type == MESSAGE and "schedule_id" in data["metadata"]:
            kind = "message"
        if kind in self.refused:
            self.has_refused_messages |= kind == "message"
            raise RuntimeError("a guard's own fault")
