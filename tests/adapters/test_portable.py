"""What of a call's arguments every library can keep."""

from __future__ import annotations

from typing import Any

import pytest

from schedule_sm.adapters.portable import LEVELS, portable


def nested(levels: int) -> dict[str, Any]:
    """An object around so many levels, by turns objects and arrays."""
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return {"z": value}


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": "\ud83d", "after_seconds": 60, "flag": True, "none": None, "list": [1.5, "x", {}]},
        {"least": -(2**63), "most": 2**64 - 1},
        nested(LEVELS - 1),
        "a text",
        None,
    ],
)
def test_plain_values_come_back_equal(value: Any) -> None:
    assert portable(value) == value


@pytest.mark.parametrize("levels", [LEVELS, 300, 100_000])
def test_what_nests_deeper_is_cut_off(levels: int) -> None:
    cut = portable(nested(levels))["z"]
    depth = 0
    while cut is not None:
        [cut] = cut.values() if isinstance(cut, dict) else cut
        depth += 1
    assert depth == LEVELS - 1


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400])
def test_integers_beyond_64_bits_become_none(number: int) -> None:
    assert portable({"n": [number]}) == {"n": [None]}


def test_halves_of_characters_in_keys_are_escaped() -> None:
    assert portable({"\ud83d": 1}) == {"\\ud83d": 1}
