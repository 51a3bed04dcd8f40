"""Named places where crash tests may kill the process; in production each is a call that does nothing.

A name is ``<step>.before`` or ``<step>.after``. The list below is all of them: a test compares it with what is hit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FAILPOINTS: Final = (
    "append.before",
    "append.after",
    "begin.before",
    "begin.after",
    "insert.before",
    "insert.after",
    "commit.before",
    "commit.after",
    "acknowledge.before",
    "acknowledge.after",
    "reserve.before",
    "reserve.after",
    "followup.before",
    "followup.after",
    "dispatch.before",
    "dispatch.after",
    "release.before",
    "release.after",
    "flush.before",
    "flush.after",
    "turn.before",
    "turn.after",
    "dispose.before",
    "dispose.after",
)


def _nothing(name: str) -> None:
    """Do nothing: the hook of every process that is no crash test."""


_hook: Callable[[str], None] = _nothing


def failpoint(name: str) -> None:
    """Tell the hook that ``name`` is reached; it may be on the loop's thread or on a store's."""
    _hook(name)


def set_failpoint_hook(hook: Callable[[str], None] | None) -> None:
    """Call ``hook(name)`` at every failpoint from now on; ``None`` takes it back."""
    global _hook
    _hook = _nothing if hook is None else hook
