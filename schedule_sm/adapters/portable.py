"""A model's calls as every framework, checkpointer and provider can keep them.

A model may nest without end, write numbers of any length and give two calls one id. The tools answer that by value; the
message with the calls is kept and sent again, and must not fail where it is written down.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from schedule_sm.core.ecmascript import escape_surrogates

LEVELS: Final = 64
"""What nests deeper becomes ``None``; pydantic serializes some 250 levels of a whole message."""
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1


def portable(value: Any, levels: int = LEVELS) -> Any:
    r"""Return ``value`` without what some library cannot keep; what is plain comes back equal.

    Objects and arrays below ``levels`` and integers that MessagePack lacks (beyond 64 bits) become ``None``, which the
    tools refuse with the same error value; lone surrogates in keys become ``\udXXX``.
    """
    if isinstance(value, Mapping):
        if not levels:
            return None
        return {
            escape_surrogates(key) if isinstance(key, str) else key: portable(item, levels - 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [portable(item, levels - 1) for item in value] if levels else None
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return None
    return value


def distinct_ids(calls: Iterable[tuple[str | None, object]]) -> list[str]:
    """Return an id for each call of one response, given its own id and what it asks for.

    A new one where there is none, and where an earlier call asks for something else under the same; only a call that
    repeats another, id and all, shares its id.
    """
    asked: dict[str, object] = {}
    ids = []
    for call_id, what in calls:
        is_its_own = call_id and asked.setdefault(call_id, what) == what
        ids.append(call_id if call_id and is_its_own else f"call_{uuid.uuid4().hex}")
    return ids
