"""The turn loop of one agent: one message at a time from the inbox through the runner into the log.

Order: a message whose turn was cut off by a crash, then the rest as they came. A reminder is admitted only when the
inbox is empty, so between two reminders every waiting user message has its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.errors import HostClosedError, TurnFailedError
from schedule_sm.embedded.inbox import TURN_ENDED, TURN_STARTED, Message
from schedule_sm.embedded.runner import JsonValue, TurnOutput, TurnRunner
from schedule_sm.embedded.sessions import EmbeddedSession
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.tool_spec import ToolSpec

CANCEL_TIMEOUT_S: Final = 5.0
"""How long a runner may take to let its cancellation through before it is left behind."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """A finished turn, read from the log."""

    seq: int
    """Where its end stands in the log."""
    message: Message
    """What it was about; the attempt's number is in its metadata."""
    reply: str
    """What the user is shown; empty if the turn failed."""
    items: Sequence[JsonValue]
    """What it added to the history, its user message first."""
    error: str | None
    """``None``, or in short why it failed."""

    @property
    def is_reminder(self) -> bool:
        """Whether a due reminder, and not a user, began it."""
        return self.message.is_reminder


def read_turn(log: EncodedLog, seq: int) -> Turn:
    """Return the turn whose ``turn/ended`` stands at ``seq``."""
    ended = log.data_at(seq)
    queued_at: int = ended["message_seq"]
    queued = log.data_at(queued_at)
    metadata = {**queued["metadata"], "attempt": ended["attempt"]}
    message = Message(queued["id"], queued["text"], queued["source"], metadata, queued_at, ended["attempt"])
    return Turn(seq, message, ended["reply"], ended["items"], ended["error"])


class History:
    """The items of all turns in the whole log, a fork's inherited ones too; built once, when first asked for."""

    def __init__(self, log: EncodedLog, runner: TurnRunner) -> None:
        """Read ``log`` for ``runner``."""
        self._log = log
        self._runner = runner
        self._items: list[JsonValue] = []
        self._position = 0

    def items(self) -> list[JsonValue]:
        """Return a new list of the items in the runner's format; others are left out."""
        for ended in list(self._log.data_of(self._log.seqs_of(TURN_ENDED, self._position, len(self._log)))):
            if ended["format"] == self._runner.format:
                self._items.extend(ended["items"])
            else:
                _logger.warning("a turn in the format %r is left out of the history", ended["format"])
        self._position = len(self._log)
        return list(self._items)


class TurnTaker(Protocol):
    """The agent that a turn loop works for."""

    session: EmbeddedSession

    @property
    def is_reserved(self) -> bool:
        """Whether somebody holds admission."""

    def turn_tools(self, message: Message) -> Sequence[ToolSpec]:
        """Return the tools that the turn of ``message`` is given."""

    def announce(self, status: str) -> None:
        """Tell of a new status."""


class TurnLoop:
    """Runs turns while there are messages; it has a task only then."""

    def __init__(self, agent: TurnTaker, runner: TurnRunner) -> None:
        """Take turns for ``agent`` with ``runner``."""
        self._agent = agent
        self._session = agent.session
        self._runner = runner
        self._history = History(agent.session.events, runner)
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._replies: dict[str, asyncio.Future[str]] = {}
        self.finished_seq = len(agent.session.events) - 1
        """Everything up to here in the log is told to those who follow the turns."""
        self.opened_seq = self.finished_seq
        self._followers: dict[object, Callable[[], None]] = {}

    @property
    def is_running(self) -> bool:
        """Whether a turn runs, or is about to."""
        return self._task is not None

    @property
    def is_stopping(self) -> bool:
        """Whether no turn will begin any more."""
        return self._is_stopping

    def pump(self) -> None:
        """Begin a turn if a message is ready and nothing holds admission; called whenever that may have changed."""
        if self._task is None and self._next_message() is not None:
            self._task = asyncio.get_running_loop().create_task(
                self._take_turns(), name=f"schedule-sm turns of {self._session.id}"
            )

    async def send(self, text: str) -> str:
        """Queue ``text`` and return the reply of its turn; a caller that is cancelled takes nothing back."""
        if self._is_stopping or not self._session.is_live:
            what = f"session {self._session.id!r}"
            raise HostClosedError(what)
        message = self._session.queue_user_message(text)
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._replies[message.id] = reply
        self.pump()
        try:
            return await reply
        finally:
            self._replies.pop(message.id, None)

    def follow(self, on_news: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_news`` whenever a turn has finished or the loop has stopped; returns its disposer."""
        key = object()
        self._followers[key] = on_news
        return lambda: self._forget_follower(key)

    async def stop(self) -> None:
        """Begin no turn any more and cut off the running one: it stays in the inbox and is offered again."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._tell_end()

    # -- one turn after the other ---------------------------------------------------------------------------

    def _next_message(self) -> Message | None:
        if self._is_stopping or self._agent.is_reserved or not self._session.is_live:
            return None
        return self._session.inbox.next_message(self._session.writer.durable)

    async def _take_turns(self) -> None:
        try:
            self._agent.announce("running")
            while (message := self._next_message()) is not None:
                await self._take_turn(message.offered())
        except Exception:  # a fault of our own: another attempt at the same message would only repeat it
            self._is_stopping = True
            _logger.exception("session %r takes no more turns until it is opened again", self._session.id)
            self._tell_end()
        except BaseException:  # by stop(), by the end of the event loop or of the program: begin nothing more
            self._is_stopping = True
            raise
        finally:
            self._task = None
            self._agent.announce("idle")
            self.pump()  # a message that came with the news

    async def _take_turn(self, message: Message) -> None:
        failpoint("turn.before")
        self._session.record(TURN_STARTED, {"message": message.id, "attempt": message.attempts})
        await self._flush("start", message)
        items, output, error = await self._run(message)
        if not self._session.is_live:
            return
        ended = {
            "message": message.id,
            "message_seq": message.seq,
            "attempt": message.attempts,
            "format": self._runner.format,
        }
        try:
            seq = self._session.record(
                TURN_ENDED, {**ended, "items": [*items, *output.items], "reply": output.reply, "error": error}
            )
        except (TypeError, ValueError, RecursionError):
            _logger.exception("the runner's items are not JSON (session %r)", self._session.id)
            error = "the runner's items are not JSON"
            seq = self._session.record(TURN_ENDED, {**ended, "items": [], "reply": "", "error": error})
        try:
            await self._flush("end", message)
            failpoint("turn.after")
        finally:  # it has ended, also for those who wait for it while the session is closed
            self._finished(seq, message, output.reply, error)

    async def _run(self, message: Message) -> tuple[list[JsonValue], TurnOutput, str | None]:
        """Run the runner in a task of its own, so that whatever it does to itself ends the turn, not the agent."""
        items: list[JsonValue] = []
        try:
            items.append(self._runner.user_message(message.text, message.id))
            history = self._history.items()
            history += items
            running = asyncio.get_running_loop().create_task(
                self._runner.run_turn(self._session.id, history, self._agent.turn_tools(message)),
                name=f"schedule-sm turn {message.id}",
            )
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                await self._cut_off(running)
                raise
            if running.cancelled():
                return items, TurnOutput((), ""), "cancelled by the runner itself"
            error = running.exception()
            if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
                return items, _checked(running.result()), None
        except Exception as raised:  # noqa: BLE001 - a host call: it ends the turn, which is recorded as failed
            error = raised
        _logger.error("the turn of %r failed", message.id, exc_info=error)
        return items, TurnOutput((), ""), type(error).__name__

    async def _cut_off(self, running: asyncio.Task[Any]) -> None:
        running.cancel()
        _, pending = await asyncio.wait({running}, timeout=CANCEL_TIMEOUT_S)
        if pending:
            _logger.error("the runner of session %r does not let itself be cancelled", self._session.id)

    async def _flush(self, what: str, message: Message) -> None:
        if not await self._session.writer.flush():
            _logger.warning("the %s of the turn of %r is not durable yet", what, message.id)

    def _finished(self, seq: int, message: Message, reply: str, error: str | None) -> None:
        self.finished_seq = seq
        waiting = self._replies.get(message.id)
        if waiting is not None and not waiting.done():
            if error is None:
                waiting.set_result(reply)
            else:
                waiting.set_exception(TurnFailedError(error))
        self._tell_followers()

    def _tell_end(self) -> None:
        """Tell those who wait for a reply or a turn that none will come."""
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(HostClosedError(f"session {self._session.id!r}"))
        self._tell_followers()

    def _tell_followers(self) -> None:
        for on_news in tuple(self._followers.values()):
            on_news()

    def _forget_follower(self, key: object) -> None:
        self._followers.pop(key, None)


class Turns:
    """An async iterator over finished turns: those behind ``after_seq``, then each as it ends, until the close."""

    def __init__(self, loop: TurnLoop, log: EncodedLog, after_seq: int) -> None:
        """Read ``log`` behind ``after_seq``."""
        self._loop = loop
        self._log = log
        self._position = after_seq + 1

    def __aiter__(self) -> Turns:
        return self

    async def __anext__(self) -> Turn:
        while True:
            finished = self._log.seqs_of(TURN_ENDED, self._position, self._loop.finished_seq + 1, most=1)
            if finished:
                self._position = finished[0] + 1
                return read_turn(self._log, finished[0])
            if self._loop.is_stopping:
                raise StopAsyncIteration
            await self._news()

    async def _news(self) -> None:
        news = asyncio.Event()
        undo = self._loop.follow(news.set)
        try:
            await news.wait()
        finally:
            undo()


def _checked(output: object) -> TurnOutput:
    if not isinstance(output, TurnOutput) or not isinstance(output.reply, str):
        msg = f"run_turn must return a TurnOutput with a text reply, not {type(output).__name__}"
        raise TypeError(msg)
    return output
