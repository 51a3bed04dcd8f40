"""Host functions that must be synchronous: an awaitable from one of them is closed and counts as raising."""

from __future__ import annotations

import inspect
from typing import TypeVar

from schedule_sm.core.errors import CompositionError

T = TypeVar("T")


def synchronous(value: T, what: str) -> T:
    """Return ``value`` unless it is awaitable.

    Raises:
        CompositionError: naming ``what``; a coroutine is closed and a future cancelled first, so that nothing of it
            runs later.
    """
    if value is None or value is True or not inspect.isawaitable(value):
        return value
    end = getattr(value, "close", None) or getattr(value, "cancel", None)
    if end is not None:
        end()
    msg = f"{what} must be synchronous, but it returned an awaitable; make it a plain function"
    raise CompositionError(msg)
