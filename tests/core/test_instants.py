"""Canonical instants and whole numbers."""

from __future__ import annotations

import enum
import math

import pytest

from schedule_sm.core.instants import (
    MAX_INSTANT_MS,
    MIN_INSTANT_MS,
    format_instant,
    parse_instant,
    whole_number,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (MIN_INSTANT_MS, "0001-01-01T00:00:00.000Z"),
        (MAX_INSTANT_MS, "9999-12-31T23:59:59.999Z"),
        (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
    ],
)
def test_instants_format_and_parse_back(ms: int, text: str) -> None:
    assert format_instant(ms) == text
    assert parse_instant(text) == ms


@pytest.mark.parametrize("ms", [MIN_INSTANT_MS - 1, MAX_INSTANT_MS + 1])
def test_format_refuses_years_outside_1_to_9999(ms: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        format_instant(ms)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.000+00:00",
        "2026-01-01 00:00:00.000Z",
        "2026-01-01T00:00:00.000z",
        "2026-01-01T00:00:00.0000Z",
        "2026-01-01T00:00:00.000Z\n",
        "２026-01-01T00:00:00.000Z",
        "2026-02-30T00:00:00.000Z",
        "2025-02-29T00:00:00.000Z",
        "2026-01-01T24:00:00.000Z",
        "2026-01-01T00:00:60.000Z",
        "0000-01-01T00:00:00.000Z",
        "",
    ],
)
def test_parse_refuses_every_other_form(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant(text)


class _Number(enum.IntEnum):
    SEVEN = 7


@pytest.mark.parametrize(
    ("value", "number"),
    [(30, 30), (30.0, 30), (3e1, 30), (-0.0, 0), (_Number.SEVEN, 7), (2**70, 2**70)]
    + [(value, None) for value in (True, False, "30", None, 30.5, math.nan, math.inf, [])],
)
def test_whole_number_takes_what_json_calls_a_whole_number(value: object, number: int | None) -> None:
    assert whole_number(value) == number
    assert type(whole_number(value)) is type(number)
