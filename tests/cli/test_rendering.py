"""Escaped text, local times and durations."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_sm.cli.rendering import (
    duration,
    local_clock,
    local_time,
    utc_time,
    visible,
    visible_lines,
    with_local_times,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("abc\u202edcba\u2066x", r"abc\u202edcba\u2066x"),
        ("\u200e\u061c\ufeff\u2028", r"\u200e\u061c\ufeff\u2028"),
        ("\U000e0041", r"\U000e0041"),
        ("lone \ud83d", r"lone \ud83d"),
        ("pair \ud83d\ude00", "pair 😀"),
        ("Grüße, 日本語, שלום", "Grüße, 日本語, שלום"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("[bold]no markup[/bold]", "[bold]no markup[/bold]"),
    ],
)
def test_visible_escapes_what_could_move_a_cursor_or_hide_text(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=[])))
def test_visible_text_is_one_encodable_line_without_controls(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert "\x1b" not in shown
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown


def test_visible_lines_keeps_line_feeds_only() -> None:
    assert visible_lines("one\r\ntwo\x1b[2J\nthree\r") == "one\ntwo\\x1b[2J\nthree\\r"


@pytest.mark.parametrize(
    ("ms", "spelled"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (12_345, "12 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (3_605_000, "1 h"),
        (90_061_000, "1 d 1 h"),
    ],
)
def test_duration_has_at_most_two_units(ms: int, spelled: str) -> None:
    assert duration(ms) == spelled


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_berlin")
def test_local_time_follows_tz_and_names_its_offset() -> None:
    assert local_time(1_785_931_200_000) == "2026-08-05 14:00:00 +0200"
    assert local_clock(1_785_931_200_000) == "14:00:00"
    assert (
        with_local_times("a is due at 2026-08-05T12:00:00.000Z, not 2026-02-30T12:00:00.000Z.")
        == "a is due at 2026-08-05 14:00:00 +0200, not 2026-02-30T12:00:00.000Z."
    )


@pytest.mark.usefixtures("_berlin")
def test_local_time_falls_back_to_utc_where_the_calendar_ends() -> None:
    assert local_time(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert local_time(-62_135_596_800_000).startswith("0001-01-01")
    assert utc_time(10**18) == "1000000000000000000 ms"
