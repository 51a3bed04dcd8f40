"""What every command shares of text for people: escaping, local times and durations.

Text that a person or a model wrote reaches a terminal through ``visible`` only, and never as Rich markup.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Final

from schedule_sm.core.ecmascript import join_surrogate_pairs
from schedule_sm.core.instants import format_instant, parse_instant

_ESCAPED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that are shown escaped: controls, formats (bidi marks), surrogates, line separators."""

_KEPT: Final = frozenset(
    "\u200c\u200d"  # joiners: scripts and emoji need them, and they move no other character
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2"  # number signs: format characters with a shape
)

_INSTANT: Final = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\b")

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Return ``text`` on one line with everything escaped that could move a cursor or hide other text.

    Control characters, terminal escapes, bidi marks, line separators and lone surrogates become ``\n``, ``\x1b``,
    ``\u202e`` and the like (Python's own escapes); the result can always be encoded as UTF-8.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, join_surrogate_pairs(text)))


def visible_lines(text: str) -> str:
    """Return ``visible`` of each line of ``text``, for replies that have several."""
    return "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _ESCAPED:
        return character
    return _SHORT.get(character) or character.encode("unicode_escape").decode("ascii")


def make_output_forgiving() -> None:
    """What the terminal's encoding lacks is shown as an escape, in place of a ``UnicodeEncodeError``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def local_time(ms: int) -> str:
    """Return an epoch instant in the local zone, to the second, with its offset; in UTC where a calendar ends."""
    try:
        local = datetime.fromtimestamp(ms // 1_000, tz=UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return utc_time(ms)
    return f"{local:%Y-%m-%d %H:%M:%S %z}" if local.year > 999 else utc_time(ms)


def local_clock(ms: int) -> str:
    """Return the local time of day, to the second."""
    return local_time(ms)[11:19]


def with_local_times(text: str) -> str:
    """Return ``text`` with each canonical instant in it as ``local_time`` shows it."""
    return _INSTANT.sub(_localised, text)


def _localised(found: re.Match[str]) -> str:
    try:
        return local_time(parse_instant(found[0]))
    except ValueError:  # it only looks like one
        return found[0]


def utc_time(ms: int) -> str:
    """Return the canonical instant, or the bare number if it is none."""
    try:
        return format_instant(ms)
    except ValueError:
        return f"{ms} ms"


_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration(ms: int) -> str:
    """Spell a duration in its two largest units; less than ten seconds to the tenth, less than one in ms."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f} s"
    seconds = ms // 1_000
    parts: list[str] = []
    for name, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(part for part in parts[:2] if part)
