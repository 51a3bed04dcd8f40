"""Plain English requests of the built-in runner: text in, one small value out; no clock and no I/O."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

_UNITS: Final = {
    "second": 1,
    "sec": 1,
    "s": 1,
    "minute": 60,
    "min": 60,
    "m": 60,
    "hour": 3_600,
    "hr": 3_600,
    "h": 3_600,
}
_UNITS_LONG: Final = {"day": 86_400, "d": 86_400, "week": 604_800, "w": 604_800}
SECONDS: Final = {**_UNITS, **_UNITS_LONG}

_SMALL: Final = (  # the index is the value
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *(
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ),
)
_TENS: Final = dict(
    zip(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"],
        range(20, 100, 10),
        strict=True,
    )
)
_WORDS: Final = {**{word: value for value, word in enumerate(_SMALL)}, **_TENS, "a": 1, "an": 1}

_DIGITS: Final = r"\d+(?:\.\d+)?"
_WORDED: Final = (
    rf"half an?|(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})(?:[ -](?:{'|'.join(_SMALL[1:10])}))?"
)
_UNIT: Final = "(?:" + "|".join(sorted(SECONDS, key=len, reverse=True)) + ")s?"
_PART: Final = rf"\b(?:{_DIGITS}\s*|(?:{_WORDED})\s+){_UNIT}\b"
# what stands between two parts is given back to nobody, or a list of them could be split in more ways than can be tried
_AND: Final = r"\s*+(?:,\s*+)?+(?:and\b\s*+)?+"
_DURATION: Final = rf"(?P<duration>{_PART}(?:{_AND}{_PART})*+)"
_FLAGS: Final = re.IGNORECASE | re.DOTALL
_LINK: Final = r"(?:to|that|about|of)"

_TIME_FIRST: Final = re.compile(
    rf"remind me (?:in|after) {_DURATION}[,:]?\s*(?:{_LINK}\s+)?(?P<what>.+)", _FLAGS
)
_TIME_LAST: Final = re.compile(
    rf"remind me {_LINK}\s+(?P<what>\S(?:.*?\S)?)\s+(?:in|after) {_DURATION}[.!]?", _FLAGS
)
_SPLIT: Final = re.compile(rf"\b(?:({_DIGITS})\s*|({_WORDED})\s+)({_UNIT})\b", _FLAGS)
_LIST: Final = re.compile(
    r"(?:list|show|what are)(?: (?:all|my|the|me))*(?: (?:reminders?|schedules?))?[?.!]?", _FLAGS
)
_DELETE: Final = re.compile(
    r"(?:delete|cancel|remove|forget)(?: (?:my|the))?(?: (?:reminder|schedule))? (?P<id>\S+?)[.!]?", _FLAGS
)


@dataclass(frozen=True, slots=True)
class Remind:
    """Create a reminder."""

    prompt: str
    after_seconds: int


@dataclass(frozen=True, slots=True)
class ListAll:
    """List the reminders."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one reminder."""

    id: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """None of the above."""


Request: TypeAlias = Remind | ListAll | Delete | Unclear


def parse_request(text: str) -> Request:
    """Return what ``text`` asks for; delays are rounded up to whole seconds."""
    asked = re.sub(r"^(?:please|hey|ok|okay|could you|can you|now)[, ]+", "", text.strip(), flags=_FLAGS)
    match = _TIME_FIRST.fullmatch(asked) or _TIME_LAST.fullmatch(asked)
    if match is not None:
        seconds = parse_duration(match["duration"])
        if seconds is not None:
            return Remind(match["what"].strip(), seconds)
    if _LIST.fullmatch(asked):
        return ListAll()
    match = _DELETE.fullmatch(asked)
    if match is not None:
        number = match["id"].lstrip("#")
        return Delete(f"schedule-{number}" if number.isdecimal() else match["id"])
    return Unclear()


def parse_duration(text: str) -> int | None:
    """Return "1 hour and thirty minutes" as whole seconds, rounded up; ``None`` if that is beyond any float."""
    total = 0.0
    for digits, words, unit in _SPLIT.findall(text):
        value = float(digits) if digits else _parse_words(words.casefold())
        total += value * SECONDS[_singular(unit.casefold())]
    return math.ceil(total) if math.isfinite(total) else None


def _singular(unit: str) -> str:
    return unit if unit in SECONDS else unit.removesuffix("s")


def _parse_words(words: str) -> float:
    return 0.5 if words.startswith("half") else float(sum(_WORDS[part] for part in re.split("[ -]", words)))
