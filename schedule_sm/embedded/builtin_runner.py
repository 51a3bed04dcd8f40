"""A turn runner without a model: understands plain requests, calls the real tools, presents due reminders.

It is what ``schedule-sm demo`` and ``chat`` run, and an example of a ``TurnRunner``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from schedule_sm.clock import wall_ms
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.requests import Delete, ListAll, Remind, parse_request
from schedule_sm.embedded.runner import JsonValue, TurnOutput
from schedule_sm.tool_spec import ToolSpec

HELP: Final = (
    'I keep reminders. Say "remind me in 10 minutes to stretch", "list", or "delete schedule-1". '
    "Seconds, minutes, hours and days all work."
)
_FRAMING: Final = "[SCHEDULE REMINDER]\n"
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class BuiltinRunner:
    """One request, at most one tool call, one reply."""

    format = "schedule-sm/builtin-1"

    def user_message(self, text: str, message_id: str) -> JsonValue:
        """Return a history item in the shape that most chat interfaces have."""
        return {"role": "user", "id": message_id, "content": text}

    async def run_turn(
        self,
        session_id: str,
        history: Sequence[JsonValue],
        tools: Sequence[ToolSpec],
    ) -> TurnOutput:
        """Answer the user message that ends ``history``."""
        message = history[-1]
        text = message["content"] if isinstance(message, dict) else ""
        assert isinstance(text, str)
        if text.startswith(_FRAMING):
            return _said([], present_reminder(text, wall_ms()))
        by_name = {tool.name: tool for tool in tools}
        match parse_request(text):
            case Remind(prompt, after_seconds):
                arguments: dict[str, Any] = {"prompt": prompt, "after_seconds": after_seconds}
                return await _call(by_name, "schedule_create", arguments)
            case ListAll():
                return await _call(by_name, "schedule_list", {})
            case Delete(schedule_id):
                return await _call(by_name, "schedule_delete", {"id": schedule_id})
            case _:
                return _said([], HELP)


async def _call(tools: dict[str, ToolSpec], name: str, arguments: dict[str, Any]) -> TurnOutput:
    tool = tools.get(name)
    if tool is None:
        return _said([], "Reminders are not available in this session.")
    result = await tool.invoke(arguments)
    call: JsonValue = {"role": "tool", "name": name, "arguments": arguments, "content": result.content}
    return _said([call], _describe(name, result.value))


def _said(items: list[JsonValue], reply: str) -> TurnOutput:
    return TurnOutput([*items, {"role": "assistant", "content": reply}], reply)


def _describe(name: str, value: Any) -> str:
    if isinstance(value, list):
        if not value:
            return "There are no reminders."
        return "\n".join(f"{view['id']}: {view['prompt']} ({_due(view)})" for view in value)
    if name == "schedule_delete" and "deleted" in value:
        if value["deleted"]:
            return f"Deleted {value['id']}."
        return f"There is no active reminder {value['id']}."
    if "code" in value:
        return f"That did not work ({value['code']}): {value['message']}"
    return (
        f"I will remind you in {render_duration(value['afterSeconds'])}: {value['prompt']} ({value['id']})."
    )


def _due(view: dict[str, Any]) -> str:
    left_ms = parse_instant(view["scheduledAt"]) - wall_ms()
    if view["state"] == "overdue":
        return f"overdue for {render_duration(max(0, -left_ms) // 1_000)}"
    return f"in {render_duration(max(1, -(-left_ms // 1_000)))}"


def present_reminder(framing: str, now_ms: int) -> str:
    """Return what a user is told of a due reminder, and how late it is at ``now_ms``."""
    fields = dict(line.split(": ", 1) for line in framing.split("\n")[2:])
    occurrence_at = fields["occurrence_at"]
    late_s = max(0, now_ms - parse_instant(occurrence_at)) // 1_000
    lateness = f"{render_duration(late_s)} late" if late_s else "on time"
    return (
        f"Reminder: {json.loads(fields['reminder_prompt_json'])} (due {_readable(occurrence_at)}, {lateness})"
    )


def _readable(instant: str) -> str:
    return f"{instant[:10]} {instant[11:19]} UTC"


def render_duration(seconds: int) -> str:
    """Return whole seconds as at most two units, such as ``1 hour 5 minutes``."""
    parts = []
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(parts[:2]) or "0 seconds"
