"""``TurnGate``: reminders between the turns of a loop that the user owns, around any client library or none.

The loop takes one turn after the other::

    while True:
        async with gate.next_turn() as text:
            print(await answer(text))

A turn never starts while admission is reserved, and no reservation succeeds while a turn runs or input waits. The gate
alone keeps messages in memory; ``GateRunner`` lets it take the turns of an embedded host, whose inbox is durable. All
methods belong to one event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from schedule_sm.core.ecmascript import encodable, escape_surrogates
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.embedded.scope import Events, once
from schedule_sm.host import Dispose, FollowupMessage
from schedule_sm.tool_spec import ToolSpec

_STATUS: Final = "agent/status"


@dataclass(slots=True, eq=False)
class GateTurn:
    """One turn, from the moment its message waits."""

    text: str
    """What the user said, or a due reminder."""
    session_id: str | None = None
    """The session of the embedded host; ``None`` for a message of the gate's own."""
    history: Sequence[JsonValue] = ()
    """The session's items up to and with this message, as earlier turns gave them."""
    tools: Sequence[ToolSpec] = ()
    """What the model may call in this turn."""
    reply: str = ""
    """What the user is shown; kept in the session's log."""
    items: list[JsonValue] = field(default_factory=list)
    """What the turn adds to the history behind its message; by default the reply as an assistant's message."""
    ended: asyncio.Future[None] | None = None
    """Done when the loop has left the turn's block, with what the block raised; cancelled to take the turn back."""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for its end any more."""
        return self.ended is not None and self.ended.done()

    def end(self, error: Exception | None) -> None:
        """Tell who waits for the end."""
        if self.ended is None or self.is_over:
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


class TurnGate:
    """Admission to turns, as the host contract asks of an agent, and the messages that wait for theirs."""

    def __init__(self) -> None:
        """Start idle, with nothing waiting."""
        self._waiting: OrderedDict[GateTurn, None] = OrderedDict()
        self._is_reserved = False
        self._news = asyncio.Event()
        self._events = Events()
        self.turn: GateTurn | None = None
        """The turn whose block is open: its tools, and where the reply goes."""

    # -- for the loop ---------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Queue what a user says. In front of an embedded host say it to the session instead, which keeps it."""
        self.put(GateTurn(text))

    @asynccontextmanager
    async def next_turn(self) -> AsyncIterator[str]:
        """Wait for a message and for admission; the turn lasts as long as the block.

        An exception out of the block fails the turn and goes on to the caller. A cancelled one is cut off: its message
        waits again, in front; to give a turn up for good, catch the cancellation inside the block.
        """
        while self.turn is not None or self._is_reserved or not self._waiting:
            await self._news.wait()
        self.turn = turn = self._waiting.popitem(last=False)[0]
        self._announce()
        try:
            yield turn.text
        except Exception as error:
            self._leave(turn, error)
            raise
        except BaseException:
            if not turn.is_over:
                self._waiting[turn] = None
                self._waiting.move_to_end(turn, last=False)
            self._leave(None)
            raise
        self._leave(turn)

    # -- the host contract of an agent ----------------------------------------------------------------------

    @property
    def status(self) -> str:
        """``"running"`` while a turn's block is open, else ``"idle"``."""
        return "idle" if self.turn is None else "running"

    def on_status(self, handler: Callable[[str], object]) -> Dispose:
        """Call ``handler(status)`` at each change, until the disposer is called; emit ``agent/status`` in it."""
        return self._events.on(_STATUS, handler)

    def reserve_turn_admission(self) -> Callable[[], None] | None:
        """Keep every turn from starting until the returned releaser is called; ``None`` while anything goes on."""
        if self._is_busy:
            return None
        self._is_reserved = True
        return once(self._release)

    def followup(self, message: FollowupMessage, /) -> None:
        """Queue a due reminder; its turn begins once the reservation is given back."""
        self.put(GateTurn(message.text))

    async def when_idle(self) -> None:
        """Return when no turn runs or waits and nobody holds a reservation; level-triggered and cancellable."""
        while self._is_busy:
            await self._news.wait()

    # -- for runners ----------------------------------------------------------------------------------------

    def put(self, turn: GateTurn) -> None:
        """Let ``turn`` wait behind the others."""
        self._waiting[turn] = None
        self._tell()

    def withdraw(self, turn: GateTurn) -> None:
        """Take ``turn`` back if it still waits; an open block goes on."""
        if turn in self._waiting:
            del self._waiting[turn]
            self._tell()

    # -- the rest -------------------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return self.turn is not None or self._is_reserved or bool(self._waiting)

    def _leave(self, ended: GateTurn | None, error: Exception | None = None) -> None:
        self.turn = None
        if ended is not None:
            ended.end(error)
        self._announce()
        self._tell()

    def _tell(self) -> None:
        """Wake everybody who waits; each looks again."""
        self._news.set()
        self._news = asyncio.Event()

    def _announce(self) -> None:
        self._events.emit(_STATUS, self.status)

    def _release(self) -> None:
        self._is_reserved = False
        self._tell()


class GateRunner:
    """Hands the turns of an embedded host to a loop that takes them from a gate.

    The host's agent is what gives admission and keeps the inbox; a turn whose block the loop has left is over, and what
    ``gate.turn`` then holds becomes durable before the next one begins.
    """

    format: Final = "schedule-sm/own-loop-1"

    def __init__(self, gate: TurnGate) -> None:
        """Hand over to ``gate``; turns of several sessions go one after the other."""
        self._gate = gate

    def user_message(self, text: str, message_id: str) -> JsonValue:
        """Return a message in the shape that most client libraries have."""
        return {"role": "user", "content": escape_surrogates(text)}

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Let the message that ends ``history`` wait in the gate until its turn is over.

        Raises:
            Exception: whatever the loop's block raised.
        """
        message = history[-1]
        assert isinstance(message, dict)
        ended = asyncio.get_running_loop().create_future()
        turn = GateTurn(str(message["content"]), session_id, history, tools, ended=ended)
        self._gate.put(turn)
        try:
            await ended
        finally:
            self._gate.withdraw(turn)
        reply = escape_surrogates(turn.reply)
        items: list[JsonValue] = encodable(
            turn.items
        )  # what a library cannot send again would block the session
        return TurnOutput(items or [{"role": "assistant", "content": reply}], reply)
