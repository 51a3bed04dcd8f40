"""Tools and owner against the reference implementation, replayed on a ScriptedHost by the unchanged ``replay.py``."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from tests.conformance.replay import run_sequence, run_tool_args
from tests.conformance.vectors import HERE, raw_vectors, vectors


def listed_differences() -> dict[str, str]:
    """Vector id to what happens here instead, read from the one place that may say so."""
    text = (HERE / "differences.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ((?:sequences|tool-args)-s-\d+) \| ([^|]+) \|", text, re.MULTILINE))


DIFFERENCES = listed_differences()


def without_idle_waits(expect: dict[str, Any]) -> dict[str, Any]:
    """The same expectation without any ``when_idle`` call."""
    stated = copy.deepcopy(expect)
    for holder, key in [(stated, "trace"), *((step, "calls") for step in stated["steps"])]:
        holder[key] = [call for call in holder[key] if call["call"] != "when_idle"]
    return stated


def stated_result(vector: dict[str, Any]) -> dict[str, Any]:
    """What ``differences.md`` says happens here."""
    said = DIFFERENCES[vector["id"]]
    if said == "no `when_idle` call":
        return without_idle_waits(vector["expect"])
    assert said == '`{"code": "time_out_of_range"}`'
    return {**vector["expect"], "value": {"code": "time_out_of_range"}}


@pytest.mark.parametrize("vector", vectors("tool_args", keep_numbers=True))
def test_tool_args(vector: dict[str, Any]) -> None:
    got = run_tool_args(vector["input"])
    if vector["id"] in DIFFERENCES:
        assert got != vector["expect"]
        assert got == stated_result(vector)
    else:
        assert got == vector["expect"]


@pytest.mark.parametrize("vector", vectors("sequences", keep_numbers=True))
def test_sequence(vector: dict[str, Any]) -> None:
    got = run_sequence(vector["input"])
    if vector["id"] in DIFFERENCES:
        assert got != vector["expect"]
        assert got == stated_result(vector)
    else:
        assert got == vector["expect"]


def test_listed_differences_are_vectors() -> None:
    known = {vector["id"] for name in ("tool_args", "sequences") for vector in raw_vectors(name)}
    assert set(DIFFERENCES) <= known
    assert sorted(DIFFERENCES) == [
        "sequences-s-101",
        "sequences-s-102",
        "sequences-s-119",
        "sequences-s-120",
        "tool-args-s-051",
    ]
