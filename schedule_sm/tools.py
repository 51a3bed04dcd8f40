"""The three tools of one agent: schedule_create, schedule_list and schedule_delete. Errors are values.

Arguments are judged here and only here, before any I/O; everything after that happens under the session's lane, in a
task that holds it to its end.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

from schedule_sm.barrier import flush
from schedule_sm.clock import LOOP_CLOCK, Clock
from schedule_sm.core.changes import Entry, new_entry
from schedule_sm.core.ecmascript import join_surrogate_pairs, stringify, trim
from schedule_sm.core.errors import SENTENCES, ErrorCode, ScheduleInputError, ScheduleLogError
from schedule_sm.core.event_log import create_data, end_data
from schedule_sm.core.fields import SCHEDULE_CHANGE, check_after_seconds, check_id
from schedule_sm.core.projection import Projection
from schedule_sm.core.views import list_of_views, view_of
from schedule_sm.diagnostics import warn, warn_unless_departed
from schedule_sm.host import Agent, Context, Dispose, ToolResult
from schedule_sm.repeated_calls import CreateCall, turn_creates
from schedule_sm.synchronous import synchronous
from schedule_sm.take_back import take_back
from schedule_sm.tool_catalog import TOOL_NAMES, tool_catalog
from schedule_sm.transaction import UNANSWERED, Transaction, shared_session

TOOL_TIMEOUT_S = 30.0
"""How long a caller waits, the lane included, before it is told that nothing is certain."""

Operation: TypeAlias = Literal["create", "list", "delete"]
Value: TypeAlias = Any
"""Plain JSON data."""
Answer: TypeAlias = Value | ToolResult
"""A value still to be rendered, or a result that is rendered already."""
CallIds: TypeAlias = tuple[str, str] | None
"""Turn id and call id, if the host gave both."""


class Notified(Protocol):
    """Who is told that something may have changed: the session's owner."""

    def recompute(self) -> None:
        """Drive once more."""


def error_value(code: ErrorCode, operation: str | None = None, schedule_id: str | None = None) -> Value:
    """Return an error value: code, its fixed sentence, then operation and id where given."""
    value = {"code": code, "message": SENTENCES[code]}
    if operation is not None:
        value["operation"] = operation
    if schedule_id is not None:
        value["id"] = schedule_id
    return value


def render_value(value: Value) -> str:
    """Return ``value`` as the compact canonical JSON that a model is shown; always valid UTF-8."""
    return stringify(value)


class _Refused(Exception):  # noqa: N818 - carries an answer, not a fault
    """Ends a transaction with an error value."""

    def __init__(self, value: Value) -> None:
        super().__init__(value["code"])
        self.value = value


class AgentTools:
    """What the three tools of one agent share."""

    def __init__(
        self, ctx: Context, agent: Agent, owner: Notified, *, clock: Clock | None, tool_timeout_s: float
    ) -> None:
        """Serve ``agent`` alone; tell ``owner`` after every confirmed flush."""
        self._ctx = ctx
        self.agent = agent
        self._owner = owner
        self._clock = clock or LOOP_CLOCK
        self._timeout_s = tool_timeout_s
        self._shared = shared_session(agent.session)
        self._creates = turn_creates(ctx.sessions, agent.session)
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._undo: list[Dispose] = []

    def offer(self, tools: Iterable[ScheduleTool]) -> None:
        """Register ``tools`` in the agent's own scope, all or none; see ``register_schedule_tools``."""
        try:
            for tool in tools:
                unregister = synchronous(self.agent.ctx.tools.register(tool), "tools.register")
                self._undo.append(unregister)  # one by one: a taken name rolls back exactly the earlier ones
        except BaseException:
            # the lane stays open: the names may be taken by tools of this very agent, which go on
            take_back(self._undo, "a tool", self.agent)
            raise

    def close(self) -> None:
        """Take the tools back and close the lane to the agent: waiters leave it, a holder stops before its append."""
        take_back(self._undo, "a tool", self.agent)
        self._is_closed = True
        for transaction in self._shared.transactions_of(self.agent):
            transaction.abandon()

    async def transact(self, operation: Operation, work: _Work, schedule_id: str | None = None) -> Answer:
        """Run ``work`` under the lane; the caller may leave at any time, the transaction ends by itself."""
        lane = self._shared.lane
        if self._is_closed or lane.is_held_by(asyncio.current_task()):
            return error_value("internal_error")
        transaction = self._shared.begin(
            self.agent, lambda running: self._run(work, running), error_value("internal_error")
        )
        transaction.schedule_id = schedule_id
        # one future and one timer: with ``asyncio.wait`` the answer would come a turn later, behind the next drive
        bound = self._loop.call_later(self._timeout_s, transaction.answer_with, UNANSWERED)
        try:
            value = await transaction.answer
        except asyncio.CancelledError:
            transaction.abandon()
            raise
        finally:
            bound.cancel()
        if value is UNANSWERED:
            transaction.abandon()
            return error_value("persistence_uncertain", operation, transaction.schedule_id)
        return value

    async def _run(self, work: _Work, transaction: Transaction) -> Answer:
        try:
            return await work(transaction)
        except _Refused as refusal:
            return refusal.value
        except ScheduleLogError as error:
            warn("corrupt_log", "the log cannot be folded", self.agent, error)
            return error_value("corrupt_schedule_log")
        except Exception as error:  # noqa: BLE001 - a host call or a fault of our own: the answer is a value
            warn("owner", "a reminder tool failed", self.agent, error, level=logging.ERROR)
            return error_value("internal_error")

    # -- the parts of a transaction -------------------------------------------------------------------------

    async def fold(self, operation: Operation, transaction: Transaction) -> Projection:
        """Flush, notify, fold: the only way to read what is confirmed."""
        while self._shared.fold_some():  # noqa: ASYNC110 - it waits for nothing: each round folds a piece
            await asyncio.sleep(0)
        await self._flush("preflight", operation, transaction)
        return self._shared.fold()

    async def append(self, operation: Operation, data: dict[str, Any], transaction: Transaction) -> None:
        """Append one change, confirm it and notify; the mark is read right before the append."""
        if transaction.is_abandoned:
            raise _Refused(error_value("internal_error"))
        try:
            synchronous(self.agent.session.append(SCHEDULE_CHANGE, data), "session.append")
        except Exception as error:
            warn("append", f"append of {operation} failed", self.agent, error, level=logging.ERROR)
            raise _Refused(error_value("internal_error")) from error
        await self._flush("barrier", operation, transaction)

    async def _flush(
        self, kind: Literal["preflight", "barrier"], operation: Operation, transaction: Transaction
    ) -> None:
        outcome = await flush(self._ctx, self.agent.session)
        if not outcome.confirmed:
            what = f"flush of {operation} not confirmed"
            warn_unless_departed(self._ctx, kind, what, self.agent, outcome.error, operation=operation)
            raise _Refused(error_value("persistence_uncertain", operation, transaction.schedule_id))
        try:
            self._owner.recompute()
        except Exception as error:  # noqa: BLE001 - the notification changes nothing about the result
            warn("owner", "the owner could not be notified", self.agent, error)

    def now_ms(self) -> int:
        """Return the wall clock in ms."""
        return self._clock.now_ms()

    def serves(self, caller: object) -> bool:
        """Whether ``caller`` is this agent, on the event loop that its session lives on."""
        return caller is self.agent and asyncio.get_running_loop() is self._loop

    # -- the three calls ------------------------------------------------------------------------------------

    async def create(self, arguments: Mapping[str, Any], ids: CallIds) -> Value:
        """Validate and create; see DESIGN section 3 for the order of the checks.

        A call repeated in its turn is answered with what the first one recorded, as it is now.
        """
        if "after_seconds" not in arguments or arguments.keys() - {"prompt", "after_seconds"}:
            return error_value("invalid_selector")
        prompt = arguments.get("prompt")
        if not isinstance(prompt, str) or not trim(prompt):
            return error_value("invalid_prompt")
        try:
            seconds = check_after_seconds(arguments["after_seconds"])
        except ValueError:
            return error_value("invalid_rule")
        call = None if ids is None else CreateCall(*ids, prompt, seconds)

        async def work(transaction: Transaction) -> Value:
            projection = await self.fold("create", transaction)
            events = self.agent.session.events
            first = None if call is None else self._creates.recorded(call, events)
            if first is not None:
                return self._created_view(first)
            schedule_id = projection.allocate_id()
            try:
                entry = new_entry(schedule_id, prompt, seconds, self.now_ms())
            except ScheduleInputError as error:
                raise _Refused(error_value(error.code)) from error  # type: ignore[arg-type]  # one of InputCode
            transaction.schedule_id = schedule_id
            if call is not None:
                self._creates.remember(call, entry, len(events))
            await self.append("create", create_data(entry), transaction)
            return self._created_view(entry)

        return await self.transact("create", work)

    def _created_view(self, entry: Entry) -> Value:
        try:
            now_ms = self.now_ms()
        except Exception as error:  # noqa: BLE001 - durable already; only "overdue" depends on this reading
            warn("owner", "the clock cannot be read", self.agent, error)
            now_ms = entry.target_ms - entry.after_seconds * 1_000
        return view_of(entry, now_ms)

    async def list(self, arguments: Mapping[str, Any], ids: CallIds) -> Answer:
        """List the active reminders in create order."""

        async def work(transaction: Transaction) -> Answer:
            return ToolResult(*list_of_views(await self.fold("list", transaction), self.now_ms()))

        return await self.transact("list", work)

    async def delete(self, arguments: Mapping[str, Any], ids: CallIds) -> Value:
        """Delete one active reminder; its id was checked before the caller was."""
        schedule_id = join_surrogate_pairs(arguments["id"])

        async def work(transaction: Transaction) -> Value:
            projection = await self.fold("delete", transaction)
            if schedule_id not in projection.active:
                return {"id": schedule_id, "deleted": False, "code": "schedule_not_found"}
            await self.append("delete", end_data("delete", schedule_id), transaction)
            return {"id": schedule_id, "deleted": True}

        return await self.transact("delete", work, schedule_id)


_Work: TypeAlias = Callable[[Transaction], Awaitable[Answer]]


def _is_id(arguments: Mapping[str, Any]) -> bool:
    try:
        check_id(arguments.get("id"))
    except ValueError:
        return False
    return True


class ScheduleTool:
    """One of the three, as a host offers it."""

    def __init__(
        self,
        name: str,
        tools: AgentTools,
        call: Callable[[Mapping[str, Any], CallIds], Awaitable[Answer]],
        *,
        precheck: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> None:
        """Take name, description and schemas from the catalogue; ``precheck`` comes before the caller check."""
        self._constants = tool_catalog()[name]
        self.name = name
        self.description: str = self._constants["description"]
        self._tools = tools
        self._call = call
        self._precheck = precheck

    # Copies: what one host does to its tool's schema must not change what other agents are shown. Made when asked for:
    # most of the cost of a new agent was in them.

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        return copy.deepcopy(self._constants["parameters"])

    @cached_property
    def output_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the value."""
        return copy.deepcopy(self._constants["output_schema"])

    async def execute(
        self,
        raw_arguments: object,
        caller: object,
        *,
        call_id: str | None = None,
        turn_id: str | None = None,
    ) -> ToolResult:
        """Carry out one call on behalf of ``caller``; whatever the model sent, the answer is a value."""
        ids = None if turn_id is None or call_id is None else (turn_id, call_id)
        answer = await self._answer(raw_arguments, caller, ids)
        return answer if isinstance(answer, ToolResult) else ToolResult(answer, render_value(answer))

    async def _answer(self, raw_arguments: object, caller: object, ids: CallIds) -> Answer:
        if not isinstance(raw_arguments, Mapping):
            return error_value("invalid_selector")
        if self._precheck is not None and not self._precheck(raw_arguments):
            return error_value("invalid_rule")
        if not self._tools.serves(caller):
            return error_value("internal_error")
        return await self._call(raw_arguments, ids)


def register_schedule_tools(
    ctx: Context,
    agent: Agent,
    owner: Notified,
    *,
    clock: Clock | None = None,
    tool_timeout_s: float = TOOL_TIMEOUT_S,
) -> Dispose:
    """Offer the three tools in ``agent``'s own scope, all or none; returns what takes them back.

    The disposer unregisters them and closes the session's lane to this agent's calls.

    Raises:
        Exception: whatever the registry raises for a taken name, after the others were rolled back.
    """
    tools = AgentTools(ctx, agent, owner, clock=clock, tool_timeout_s=tool_timeout_s)
    create, list_, delete = TOOL_NAMES
    offered = (
        ScheduleTool(create, tools, tools.create),
        ScheduleTool(list_, tools, tools.list),
        ScheduleTool(delete, tools, tools.delete, precheck=_is_id),
    )
    tools.offer(offered)
    return tools.close
