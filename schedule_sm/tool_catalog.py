"""The constants that a model is shown of the three tools: names, order, descriptions and schemas.

They are written to ``tool_catalog.json`` by ``python -m schedule_sm.tool_catalog`` and read from there at run time, so
that every process, agent, Python and pydantic version shows the same bytes and a model's cached prefix survives.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from schedule_sm.core.errors import ERROR_CODES

CATALOG_FILE: Final = "tool_catalog.json"
TOOL_NAMES: Final = ("schedule_create", "schedule_list", "schedule_delete")

_AFTER_ERRORS: Final = (
    "Errors come back as {code, message}; the message says what to do next. After persistence_uncertain, call "
    "schedule_list before you repeat anything. After corrupt_schedule_log or internal_error, tell the user instead "
    "of trying again and again."
)
_DESCRIPTIONS: Final = {
    "schedule_create": (
        "Set a one-shot reminder in this session. Give the words to remind of and the delay in whole seconds from "
        "now; convert clock times, dates and minutes to seconds first, and set repeats one at a time. When the time "
        "has come and no turn is running, the reminder arrives as a user message that begins with "
        "[SCHEDULE REMINDER]. It is kept while the session is not live and then arrives late, when the session is "
        "live again; nothing wakes a session. Returns the reminder with its id and due time in UTC. "
        + _AFTER_ERRORS
    ),
    "schedule_list": (
        "List this session's reminders that have not been delivered or deleted, in the order in which they were "
        "created, each with its id, words, delay in seconds, due time in UTC and state: scheduled (the time lies "
        "ahead) or overdue (it arrives as soon as no turn is running). Takes no arguments. " + _AFTER_ERRORS
    ),
    "schedule_delete": (
        "Delete one reminder of this session before it is delivered, by its id exactly as schedule_create or "
        "schedule_list returned it. deleted is false with code schedule_not_found when there is no such reminder, "
        "or it was already delivered or deleted; no further call is needed then. " + _AFTER_ERRORS
    ),
}
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "schedule_create": {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "What to remind of, in words; not blank."},
            "after_seconds": {
                "type": "number",
                "description": "The delay in whole seconds from now: 1 or more, 300 for five minutes.",
            },
        },
        "required": ["prompt", "after_seconds"],
    },
    "schedule_list": {"type": "object", "properties": {}},
    "schedule_delete": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The reminder's id, such as schedule-1."},
        },
        "required": ["id"],
    },
}


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        kept = (
            (key, value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))
        )
        return {key: _without_titles(value) for key, value in kept}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def _output_schemas() -> dict[str, dict[str, Any]]:
    from pydantic import TypeAdapter  # only who writes the file loads the models

    from schedule_sm.core.records import ScheduleView

    view = _without_titles(TypeAdapter(ScheduleView).json_schema(mode="serialization"))
    error = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "enum": list(ERROR_CODES)},
            "message": {"type": "string", "description": "What to do next."},
            "operation": {"type": "string", "enum": ["create", "list", "delete", "dispatch"]},
            "id": {"type": "string"},
        },
        "required": ["code", "message"],
        "additionalProperties": False,
    }
    deleted = {
        "type": "object",
        "properties": {"id": {"type": "string"}, "deleted": {"const": True}},
        "required": ["id", "deleted"],
        "additionalProperties": False,
    }
    not_found = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "deleted": {"const": False},
            "code": {"const": "schedule_not_found"},
        },
        "required": ["id", "deleted", "code"],
        "additionalProperties": False,
    }
    return {
        "schedule_create": {"anyOf": [view, error]},
        "schedule_list": {"anyOf": [{"type": "array", "items": view}, error]},
        "schedule_delete": {"anyOf": [deleted, not_found, error]},
    }


def render_catalog() -> str:
    """Return the text of ``tool_catalog.json`` as this code and this pydantic would write it."""
    outputs = _output_schemas()
    tools = [
        {
            "name": name,
            "description": _DESCRIPTIONS[name],
            "parameters": _PARAMETERS[name],
            "output_schema": outputs[name],
        }
        for name in TOOL_NAMES
    ]
    note = "generated by python -m schedule_sm.tool_catalog; run it to renew"
    return json.dumps({"note": note, "tools": tools}, indent=2) + "\n"


@cache
def tool_catalog() -> Mapping[str, Mapping[str, Any]]:
    """Return the committed catalogue: each tool's description and schemas by name, in order."""
    text = Path(__file__).with_name(CATALOG_FILE).read_text(encoding="utf-8")
    return {tool["name"]: tool for tool in json.loads(text)["tools"]}


def main(arguments: list[str]) -> int:
    """Write the catalogue, or with ``--check`` compare it; 1 if it is stale."""
    file = Path(__file__).with_name(CATALOG_FILE)
    fresh = render_catalog()
    if "--check" not in arguments:
        file.write_text(fresh, encoding="utf-8", newline="\n")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == fresh:
        return 0
    sys.stderr.write(f"{CATALOG_FILE} is stale; run python -m schedule_sm.tool_catalog and commit it\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
