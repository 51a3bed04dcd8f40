"""Short ways to write a session log."""

from __future__ import annotations

from typing import Any

INSTANT = "2026-08-05T12:00:00.000Z"
INSTANT_MS = 1_785_931_200_000


def create(id_: str, *, at: str = INSTANT, prompt: str = "tea", after_seconds: object = 30) -> dict[str, Any]:
    schedule = {
        "id": id_,
        "kind": "after",
        "prompt": prompt,
        "afterSeconds": after_seconds,
        "scheduledAt": at,
    }
    return {"version": 1, "operation": "create", "schedule": schedule}


def delete(id_: str) -> dict[str, Any]:
    return {"version": 1, "operation": "delete", "id": id_}


def dispatch(id_: str) -> dict[str, Any]:
    return {"version": 1, "operation": "dispatch", "id": id_}


def log(*entries: Any) -> list[dict[str, Any]]:
    """A log: a change is written as its data, any other event as its type."""
    return [
        {
            "seq": seq,
            "type": entry if isinstance(entry, str) else "schedule/change",
            "time": 0,
            "data": {} if isinstance(entry, str) else entry,
        }
        for seq, entry in enumerate(entries)
    ]
