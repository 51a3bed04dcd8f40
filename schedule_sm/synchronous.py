"""Host functions that must be synchronous: an awaitable from one of them is closed and counts as raising."""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType, NoneType
from typing import Final, TypeVar

from schedule_sm.core.errors import CompositionError

T = TypeVar("T")

_PLAIN: Final = frozenset({NoneType, bool, int, FunctionType, MethodType})
"""What hosts usually answer; the general test asks an abstract class, which costs ten times as much."""


def synchronous(value: T, what: str) -> T:
    """Return ``value`` unless it is awaitable.

    Raises:
        CompositionError: naming ``what``; a coroutine is closed and a future cancelled first, so that nothing of it
            runs later.
    """
    if type(value) in _PLAIN or not inspect.isawaitable(value):
        return value
    end = getattr(value, "close", None) or getattr(value, "cancel", None)
    if end is not None:
        end()
    msg = f"{what} must be synchronous, but it returned an awaitable; make it a plain function"
    raise CompositionError(msg)
