"""A runner whose turns end at once: what a turn costs is not measured, what recording it costs is."""

from __future__ import annotations

from collections.abc import Sequence

from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.tool_spec import ToolSpec


class IdleRunner:
    """Says nothing."""

    format = "idle/1"

    def user_message(self, text: str, message_id: str) -> JsonValue:
        return text

    async def run_turn(
        self, session_id: str, history: Sequence[JsonValue], tools: Sequence[ToolSpec]
    ) -> TurnOutput:
        return TurnOutput([], "")
