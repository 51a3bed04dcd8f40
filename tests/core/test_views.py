"""The views that the tools show: the same as ``schedule_view``'s, and the list as text the same as ``stringify``'s."""

from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedule_sm.core.changes import Entry
from schedule_sm.core.ecmascript import join_surrogate_pairs, needs_no_escape, stringify, trim
from schedule_sm.core.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, format_instant
from schedule_sm.core.projection import Projection
from schedule_sm.core.records import schedule_view
from schedule_sm.core.views import list_of_views, view_of
from tests.core.logs import create

TEXT = (
    st.text(
        st.one_of(
            st.characters(codec=None), st.sampled_from(' \t\x1c\x7f\x85\ufeff\u2028\ud800\udc00\x00"\\\n')
        )
    )
    .map(lambda text: trim(join_surrogate_pairs(text)))
    .filter(bool)
)
NOW = st.one_of(st.integers(MIN_INSTANT_MS - 9, MAX_INSTANT_MS + 9), st.integers(0, 9))
ENTRIES = st.lists(
    st.builds(Entry, TEXT, TEXT, st.integers(1, 2**53 - 1), st.integers(0, 9).map(format_instant)), max_size=5
)


@given(ENTRIES, NOW)
@example([Entry("schedule-1", 'say "tea"', 30, format_instant(0))], 0)
def test_list_of_views_is_the_views_and_their_text(entries: list[Entry], now_ms: int) -> None:
    views, text = list_of_views(entries, now_ms)
    expected = [
        schedule_view(entry.record, now_ms).model_dump(mode="python", by_alias=True) for entry in entries
    ]
    assert [list(view.items()) for view in views] == [list(view.items()) for view in expected]
    assert views == [view_of(entry, now_ms) for entry in entries]
    assert text == stringify(expected)


@pytest.mark.parametrize("odd", ["plain", 'a "quote"', "half \ud800", "line\nbreak", "tab\there", "é"])
@pytest.mark.parametrize("place", [0, 255, 256, 300])
def test_one_odd_prompt_among_many_changes_no_other(odd: str, place: int) -> None:
    entries = [Entry(f"schedule-{n}", f"tea {n}", n + 1, format_instant(n)) for n in range(301)]
    entries[place] = Entry("odd", odd, 1, format_instant(5))
    views, text = list_of_views(entries, 5)
    assert views[place]["prompt"] == odd
    assert [view["state"] for view in views if view["id"] != "odd"] == [
        "overdue" if n <= 5 else "scheduled" for n in range(301) if n != place
    ]
    assert text == stringify(views)


def test_views_are_not_shared() -> None:
    views, _ = list_of_views([Entry(str(n), "tea", 1, format_instant(0)) for n in range(2)], 0)
    views[0]["prompt"] = "coffee"
    assert views[1]["prompt"] == "tea"


@pytest.mark.parametrize(
    ("text", "needs_none"),
    [
        ("", True),
        ("plain é\u2028\x7f/", True),
        ('"', False),
        ("\\", False),
        ("\x1f", False),
        ("\ud800", False),
    ],
)
def test_needs_no_escape(text: str, needs_none: bool) -> None:
    assert needs_no_escape(text) is needs_none
    if needs_none:
        assert stringify(text) == f'"{text}"'


def test_a_prompt_of_a_class_that_formats_itself_is_shown_as_the_text_it_is() -> None:
    class Drink(str, Enum):
        TEA = "tea"

    log = [{"seq": 0, "type": "schedule/change", "time": 0, "data": create(Drink.TEA, prompt=Drink.TEA)}]
    projection = Projection()
    projection.sync(log)
    views, text = list_of_views(projection, 0)
    assert text == stringify(views)
    assert (views[0]["id"], views[0]["prompt"]) == ("tea", "tea")
