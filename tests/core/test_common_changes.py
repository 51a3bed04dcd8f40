"""What is recognised as text is what decoding and checking finds, and what this release writes is recognised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedule_sm.core.changes import Change, Entry
from schedule_sm.core.common_changes import common_changes
from schedule_sm.core.ecmascript import WHITESPACE
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import create_data, end_data, read_change
from schedule_sm.core.instants import MAX_INSTANT_MS, MIN_INSTANT_MS, format_instant
from schedule_sm.embedded.encoded_log import encode_data
from tests.conformance.vectors import raw_vectors

INSTANT = "2026-12-12T20:39:09.222Z"

ids = st.from_regex(r"[!#-\[\]-~]([ !#-\[\]-~]*[!#-\[\]-~])?", fullmatch=True)
prompts = st.text(min_size=1).map(lambda text: text.strip(WHITESPACE)).filter(bool)
instants = st.integers(MIN_INSTANT_MS, MAX_INSTANT_MS).map(format_instant)
entries = st.builds(Entry, ids, prompts, st.integers(1, 10**15 - 1), instants)
ends = st.builds(end_data, st.sampled_from(["delete", "dispatch"]), ids)
texts = (entries.map(create_data) | ends).map(encode_data)


def create_text(
    schedule_id: str = '"schedule-1"', prompt: str = '"x"', seconds: str = "60", instant: str = f'"{INSTANT}"'
) -> str:
    """Return a create with these JSON texts as its fields."""
    return (
        f'{{"version":1,"operation":"create","schedule":{{"id":{schedule_id},"kind":"after","prompt":{prompt},'
        f'"afterSeconds":{seconds},"scheduledAt":{instant}}}}}'
    )


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return a text with a few characters put in, left out or replaced."""
    text = draw(texts)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(start + 3, len(text))))
        put = draw(
            st.sampled_from(['"', "\\", "}", "{", ",", ":", " ", "\n", "0", "1", "3", "-", "", "\x7f", "é"])
        )
        text = text[:start] + put + text[end:]
    return text


def verdict(text: str) -> Any:
    """Return what decoding and checking says of one text, comparable."""
    try:
        return fields(read_change(json.loads(text)))
    except (ValueError, RecursionError, ScheduleLogError):
        return None


def fields(change: Change) -> tuple[object, ...]:
    return change.values if isinstance(change, Entry) else (change.operation, change.id)


@given(st.lists(texts, min_size=1))
def test_what_this_release_writes_is_recognised(written: list[str]) -> None:
    changes = common_changes(written)
    assert changes is not None
    assert list(map(fields, changes)) == list(map(verdict, written))


@given(damaged())
@example(create_text(prompt='" x"'))
@example(create_text(prompt='"x "'))
@example(create_text(prompt='"x\\t"'))
@example(create_text(prompt='"\\u2003x"'))
@example(create_text(prompt='"\\x41"'))
@example(create_text(prompt='"\\u12"'))
@example(create_text(prompt='"x\\"'))
@example(create_text(prompt='""'))
@example(create_text(schedule_id='" "'))
@example(create_text(schedule_id='"a\\n"'))
@example(create_text(seconds="0"))
@example(create_text(seconds="060"))
@example(create_text(seconds="60.0"))
@example(create_text(seconds="9007199254740992"))
@example(create_text(instant='"2026-02-29T00:00:00.000Z"'))
@example(create_text(instant='"2024-02-29T00:00:00.000Z"'))
@example(create_text(instant='"0000-01-01T00:00:00.000Z"'))
@example(create_text(instant='"2026-04-31T00:00:00.000Z"'))
@example(create_text() + "\n" + create_text())
@example("\n" + create_text())
@example(create_text() + "\n")
@example(create_text() + " ")
@example('{"version":true,"operation":"delete","id":"schedule-1"}')
def test_what_is_recognised_is_what_decoding_finds(text: str) -> None:
    changes = common_changes([text])
    if changes is not None:
        (change,) = changes
        assert fields(change) == verdict(text)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "\n",
        create_text() + "\n" + create_text(),
        create_text(seconds="60.0"),
        create_text(instant='"2026-02-29T00:00:00.000Z"'),
        "{}",
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_that_is_written_otherwise_leaves_all_to_be_decoded(other: str, at: int) -> None:
    some = [create_text(), create_text()]
    some.insert(at, other)
    assert common_changes(some) is None


@pytest.mark.parametrize(
    "text", [create_text(prompt='"\\ud800"'), create_text(instant='"2024-02-29T00:00:00.000Z"')]
)
def test_escapes_and_rare_days_are_recognised(text: str) -> None:
    changes = common_changes([text])
    assert changes is not None
    assert [fields(change) for change in changes] == [verdict(text)]


def test_verdicts_of_the_vectors() -> None:
    recognised = 0
    for vector in raw_vectors("decode"):
        text = json.dumps(vector["input"]["data"], separators=(",", ":"))
        changes = common_changes([text])
        if changes is not None:
            recognised += 1
            assert list(map(fields, changes)) == [verdict(text)]
    assert recognised
