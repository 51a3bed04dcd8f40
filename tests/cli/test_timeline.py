"""The timeline: marks in order, within the width, for any reminders."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_sm.cli.rendering import utc_time
from schedule_sm.cli.session_report import ReminderReport, ReminderState
from schedule_sm.cli.timeline import draw


def reminder(
    state: ReminderState, created: int, target: int, ended: int | None = None, name: str = "schedule-1"
) -> ReminderReport:
    return ReminderReport(
        id=name,
        state=state,
        prompt="tea",
        after_seconds=1,
        scheduled_at=utc_time(target),
        created_at=utc_time(created),
        created_seq=0,
        target_ms=target,
        created_ms=created,
        ended_ms=ended,
    )


def bar(item: ReminderReport, now_ms: int, *, is_unicode: bool = True) -> str:
    return draw([item], now_ms, 52, is_unicode=is_unicode)[0].plain.removeprefix("schedule-1  ")


@pytest.mark.parametrize(
    ("state", "target", "ended", "now", "drawn"),
    [
        ("scheduled", 39, None, 10, f"├{'─' * 38}◆"),
        ("overdue", 20, None, 39, f"├{'─' * 19}◆{'━' * 19}"),
        ("dispatched", 20, 39, 39, f"├{'─' * 19}◆{'━' * 18}●"),
        ("dispatched", 39, 39, 39, f"├{'─' * 38}●"),
        ("deleted", 39, 10, 39, f"├{'─' * 9}✕{' ' * 28}┊"),
        ("deleted", 20, 39, 39, f"├{'─' * 19}◆{'━' * 18}✕"),
    ],
)
def test_bar_tells_the_story_of_a_reminder(
    state: ReminderState, target: int, ended: int | None, now: int, drawn: str
) -> None:
    assert bar(reminder(state, 0, target, ended), now) == drawn


def test_ascii_has_the_same_marks_in_ascii() -> None:
    lines = draw([reminder("overdue", 0, 20)], 39, 52, is_unicode=False)
    assert all(line.plain.isascii() for line in lines)
    assert "|===" in lines[0].plain


def test_now_is_marked_where_nothing_else_is() -> None:
    shown = bar(reminder("dispatched", 0, 10, 12), 5)
    assert "┊" not in shown  # a bar covers it
    two = draw([reminder("deleted", 0, 40, 2), reminder("scheduled", 0, 40)], 20, 52, is_unicode=True)
    assert "┊" in two[0].plain


@pytest.mark.parametrize("width", [0, 10, 30])
def test_too_narrow_a_terminal_gets_none(width: int) -> None:
    assert draw([reminder("scheduled", 0, 1)], 0, width, is_unicode=True) == []
    assert draw([], 0, 80, is_unicode=True) == []


Story = tuple[Literal["scheduled", "overdue", "dispatched", "deleted"], int, int, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["scheduled", "overdue", "dispatched", "deleted"]),
            *[st.integers(-62_135_596_800_000, 253_402_300_799_999)] * 3,
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 253_402_300_799_999),
    st.integers(32, 200),
)
def test_no_bar_leaves_the_width_whatever_the_clocks_did(
    stories: list[Story], now_ms: int, width: int
) -> None:
    reminders = [
        reminder(state, created, target, ended if state in ("dispatched", "deleted") else None)
        for state, created, target, ended in stories
    ]
    for line in draw(reminders, now_ms, width, is_unicode=True)[: len(reminders)]:
        assert len(line.plain) <= width
