"""What a host asks of whatever runs the turns: the protocol a model's framework is adapted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from schedule_sm.tool_spec import ToolSpec

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class TurnOutput:
    """What one turn added."""

    items: Sequence[JsonValue]
    """History items native to the runner, behind the turn's user message; the host does not look inside."""
    reply: str
    """What the user is shown."""


class TurnRunner(Protocol):
    """Runs one turn at a time per session."""

    @property
    def format(self) -> str:
        """Names the form of the history items; a log's items of another format are not handed over."""

    def user_message(self, text: str, message_id: str) -> JsonValue:
        """Return ``text`` as a history item; synchronous."""

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        """Run the turn of the user message that ends ``history``; raising fails the turn, not the agent."""
