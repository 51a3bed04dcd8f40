"""The ids named for one that is not there are looked for next to its place, however many there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from difflib import get_close_matches
from typing import Any

import pytest

from schedule_sm.stores import similar_ids
from schedule_sm.stores.similar_ids import COMPARED_EACH_WAY, nearest
from schedule_sm.stores.sqlite_rows import acquire, unknown_session
from schedule_sm.stores.sqlite_schema import migrate


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []

    def counted(word: str, ids: Sequence[str], **options: Any) -> list[str]:
        counts.append(len(ids))
        return get_close_matches(word, ids, **options)

    monkeypatch.setattr(similar_ids, "get_close_matches", counted)
    return counts


def test_those_most_alike_come_first() -> None:
    assert nearest("mian", ["other", "main"]) == ("main",)
    assert nearest("main", []) == ()


def test_of_many_only_neighbours_are_compared(compared: list[int]) -> None:
    ids = [f"session-{number:05}" for number in range(10_000)]
    assert "session-04321" in nearest("session-04321x", reversed(ids))
    assert nearest("session-0000", ids)
    assert nearest("zebra", ids) == ()
    assert max(compared) <= 2 * COMPARED_EACH_WAY


@pytest.mark.parametrize("missing", ["s0500x", "a", "zzz"])
def test_the_index_gives_the_same_neighbours(missing: str, compared: list[int]) -> None:
    ids = [f"s{number:04}" for number in range(1_000)]
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, "place")
        for session_id in ids:
            acquire(connection, session_id, 0)
        connection.execute("UPDATE sessions SET next_seq = 1")
        found = unknown_session(connection, "place", missing)
    assert found.nearest == nearest(missing, ids)
    assert compared[0] == compared[1]
