"""The names and fields of the protocol: its constants, and one function for each rule.

The rules (``check_…``, which raise ``ValueError``) are called by the log decoder and by the models of ``records``, so
there is one verdict. (pydantic's own string constraints refuse lone surrogates, its strict ints refuse ``30.0`` and its
``Literal[1]`` takes ``true``.)
"""

from __future__ import annotations

from typing import Final, Literal

from schedule_sm.core.ecmascript import WHITESPACE
from schedule_sm.core.instants import MAX_SAFE_INTEGER, is_on_any_calendar, parse_instant, whole_number

SCHEDULE_CHANGE_VERSION: Final = 1
"""The protocol version this release writes and reads."""

SCHEDULE_CHANGE: Final = "schedule/change"
"""The one event type that the plugin owns."""

END_SEED: Final = "session/end-seed"
"""The event type that closes the part of a log which a fork inherited."""

DELIVERY_MODE: Final = "session-local"


def check_version(value: object) -> Literal[1]:
    """Return 1 if ``value`` is the whole number 1; raise ``ValueError`` otherwise (``true`` is no number)."""
    if whole_number(value) != SCHEDULE_CHANGE_VERSION:
        msg = "version must be the number 1"
        raise ValueError(msg)
    return 1


def check_id(value: object) -> str:
    """Return a non-empty id without surrounding whitespace; raise ``ValueError`` otherwise."""
    if not isinstance(value, str) or not value or value.strip(WHITESPACE) != value:
        msg = "id must be non-empty text without surrounding whitespace"
        raise ValueError(msg)
    # no subclass, which may format itself otherwise
    return value if type(value) is str else str.__str__(value)


def check_prompt(value: object) -> str:
    """Return a non-empty, already trimmed prompt; raise ``ValueError`` otherwise."""
    if not isinstance(value, str) or not value or value.strip(WHITESPACE) != value:
        msg = "prompt must be non-empty text without surrounding whitespace"
        raise ValueError(msg)
    return value if type(value) is str else str.__str__(value)


def check_after_seconds(value: object) -> int:
    """Return the delay as an int from 1 to 2^53-1 seconds; raise ``ValueError`` otherwise."""
    seconds = value if type(value) is int else whole_number(value)
    if seconds is None or not 1 <= seconds <= MAX_SAFE_INTEGER:
        msg = "afterSeconds must be a whole number from 1 to 9007199254740991"
        raise ValueError(msg)
    return seconds


def check_instant(value: object) -> str:
    """Return a canonical instant; raise ``ValueError`` for any other text or type."""
    if not isinstance(value, str):
        msg = "scheduledAt must be text"
        raise ValueError(msg)  # noqa: TRY004 - pydantic turns ValueError, not TypeError, into a verdict
    if not is_on_any_calendar(value):
        parse_instant(value)
    return value
