"""Canonical UTC instants (``YYYY-MM-DDTHH:MM:SS.mmmZ``) to integer epoch milliseconds and back.

One textual form, years 0001 to 9999; nothing else is accepted, however ISO-like it is.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

MIN_INSTANT_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00.000Z."""

MAX_INSTANT_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""ECMA-262 Number.MAX_SAFE_INTEGER: the largest delay, in seconds, that every reader of the log can hold."""

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - naive on purpose: all arithmetic here is UTC
_TIME: Final = r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z"
FORM: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}" + _TIME
"""The pattern of a canonical instant; it may name a day that no calendar has."""
ON_ANY_CALENDAR: Final = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])" + _TIME
"""The pattern behind ``is_on_any_calendar``."""
_has_form: Final = re.compile(FORM, re.ASCII).fullmatch
is_on_any_calendar: Final = re.compile(ON_ANY_CALENDAR, re.ASCII).fullmatch
"""Matches a canonical instant up to the 28th of a month: every month has these days, so that it is certain."""


def whole_number(value: object) -> int | None:
    """Return ``value`` as an int if it is a whole number in JSON's sense, else ``None``.

    A JSON ``30.0`` or ``3e1`` is the whole number 30; ``true`` and ``"30"`` are no numbers.
    """
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return None


def format_instant(ms: int) -> str:
    """Return the canonical text of an epoch instant in ms.

    Raises:
        ValueError: if ``ms`` lies outside the years 1 to 9999.
    """
    if not MIN_INSTANT_MS <= ms <= MAX_INSTANT_MS:
        msg = f"instant {ms!r} ms lies outside the years 1 to 9999"
        raise ValueError(msg)
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds") + "Z"


def parse_instant(text: str) -> int:
    """Return the epoch ms of a canonical instant (RFC 3339 section 5.6, narrowed to one form).

    Raises:
        ValueError: if ``text`` has another form or names no calendar instant (30 February, hour 24, second 60).
    """
    if _has_form(text) is None:
        msg = "an instant must be written YYYY-MM-DDTHH:MM:SS.mmmZ"
        raise ValueError(msg)
    since = datetime.fromisoformat(text[:-1]) - _EPOCH
    return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000
