"""Whatever a model sends, the answer is a value: the matrix, the order of the checks, and anything Hypothesis finds."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedule_sm.core.errors import ERROR_CODES, SENTENCES
from schedule_sm.core.instants import MAX_INSTANT_MS
from schedule_sm.testing import ScriptedHost

CLOCK = 1_785_931_200_000
TOOLS = ("schedule_create", "schedule_list", "schedule_delete")
HALVES = "\ud83d", "\ude00"

text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats(allow_nan=True, allow_infinity=True)
    | text
    | st.sampled_from(
        ["schedule-1", " schedule-1", "\ufefftea\u2028", "\x1ctea", "", HALVES[0], HALVES[1] + "x"]
    )
)
json_like = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["prompt", "after_seconds", "id", "at", "cron", "time_zone", ""]) | text
arguments = json_like | st.dictionaries(keys, json_like, max_size=4)


def answer(name, given, **options):
    """The result of one call on a fresh host, and that host."""

    async def call():
        host = ScriptedHost(clock_ms=CLOCK, on_wake=lambda: None, **options)
        value, content = await host.call_tool(name, given)
        return value, content, host

    return asyncio.run(call())


def assert_well_formed(value, content):
    content.encode("utf-8")
    assert json.loads(content) == value
    assert "\n" not in content
    if isinstance(value, dict) and "message" in value:
        assert value["code"] in ERROR_CODES
        assert value["message"] == SENTENCES[value["code"]]
        assert [key for key in ("code", "message", "operation", "id") if key in value] == list(value)


@settings(max_examples=60)
@given(name=st.sampled_from(TOOLS), given=arguments)
@example("schedule_create", {"prompt": HALVES[0], "after_seconds": 1})
@example("schedule_create", {"prompt": "".join(HALVES), "after_seconds": 1})
@example("schedule_create", {"prompt": "\x00", "after_seconds": 9_007_199_254_740_991})
@example("schedule_create", {"prompt": "tea", "after_seconds": 10**5000})
@example("schedule_delete", {"id": "".join(HALVES)})
@example("schedule_delete", {"id": HALVES[1]})
@example("schedule_list", {"": math.nan})
def test_any_json_like_value_gets_a_value(name, given):
    value, content, _ = answer(name, given)
    assert_well_formed(value, content)


@settings(max_examples=60)
@given(prompt=text, seconds=st.integers(1, 10_000))
def test_created_prompt_is_listed_and_delivered_as_it_was_sent(prompt, seconds):
    async def call():
        host = ScriptedHost(clock_ms=CLOCK, on_wake=lambda: None)
        created, content = await host.call_tool(
            "schedule_create", {"prompt": prompt, "after_seconds": seconds}
        )
        listed, _ = await host.call_tool("schedule_list", {})
        return created, content, listed

    created, content, listed = asyncio.run(call())
    assert_well_formed(created, content)
    if "id" in created:
        assert listed == [created]


SELECTOR, PROMPT, RULE, RANGE = "invalid_selector", "invalid_prompt", "invalid_rule", "time_out_of_range"
GOOD = {"prompt": "tea", "after_seconds": 30}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("given", [None, True, 1, 1.5, "{}", [], ["prompt"], math.nan])
def test_arguments_that_are_no_object_are_an_invalid_selector(name, given):
    value, content, host = answer(name, given)
    assert (value["code"], host.trace) == (SELECTOR, [])
    assert_well_formed(value, content)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, SELECTOR),
        ({"prompt": "tea"}, SELECTOR),
        ({"prompt": ""}, SELECTOR),
        ({**GOOD, "at": "2030-01-01T00:00:00Z"}, SELECTOR),
        ({**GOOD, "every_seconds": 5}, SELECTOR),
        ({**GOOD, "cron": None}, SELECTOR),
        ({"prompt": 1, "after_seconds": "x", "time_zone": "UTC"}, SELECTOR),
        ({"after_seconds": 30}, PROMPT),
        ({"after_seconds": 0}, PROMPT),
        ({"prompt": None, "after_seconds": 30}, PROMPT),
        ({"prompt": 7, "after_seconds": "30"}, PROMPT),
        ({"prompt": " \t\u2028\ufeff", "after_seconds": 30}, PROMPT),
        ({"prompt": ["tea"], "after_seconds": 30}, PROMPT),
        *(
            ({"prompt": "tea", "after_seconds": wrong}, RULE)
            for wrong in (
                None, True, False, "30", [30], {}, 0, -1, -0.0, 0.5, 30.5, 2**53, 10**400, math.nan, math.inf,
                -math.inf, 1e300,
            )
        ),
        ({"prompt": "tea", "after_seconds": 2**53 - 1}, RANGE),
        ({"prompt": "tea", "after_seconds": (MAX_INSTANT_MS - CLOCK) // 1_000 + 1}, RANGE),
    ],
)  # fmt: skip
def test_wrong_create_gets_the_first_code_that_applies(given, code):
    value, content, host = answer("schedule_create", given)
    assert value["code"] == code
    assert host.appended == []
    assert [call["call"] for call in host.trace] == (["flush"] if code == RANGE else [])
    assert_well_formed(value, content)


@pytest.mark.parametrize(("sent", "seconds"), [(30, 30), (30.0, 30), (1, 1)])
def test_whole_number_in_any_json_form_is_a_delay(sent, seconds):
    value, _, _ = answer("schedule_create", {"prompt": " tea\n", "after_seconds": sent})
    assert (value["afterSeconds"], type(value["afterSeconds"]), value["prompt"]) == (seconds, int, "tea")


@pytest.mark.parametrize(
    "given",
    [{}, {"id": None}, {"id": 1}, {"id": True}, {"id": ["schedule-1"]}, {"id": ""}, {"id": " schedule-1"}, {"id": "x\ufeff"}],
)  # fmt: skip
@pytest.mark.parametrize("caller", ["own", "other"])
def test_wrong_id_is_an_invalid_rule_before_the_caller_is_looked_at(given, caller):
    async def call():
        host = ScriptedHost(clock_ms=CLOCK, on_wake=lambda: None)
        return (await host.call_tool("schedule_delete", given, caller=caller))[0], host.trace

    value, trace = asyncio.run(call())
    assert (value["code"], trace) == (RULE, [])


@pytest.mark.parametrize(
    ("name", "given"),
    [("schedule_create", GOOD), ("schedule_create", {"at": 1}), ("schedule_list", {}), ("schedule_delete", {"id": "x"})],
)  # fmt: skip
def test_call_for_another_agent_reads_and_flushes_nothing(name, given):
    async def call():
        host = ScriptedHost(clock_ms=CLOCK, on_wake=lambda: None)
        value, _ = await host.call_tool(name, given, caller="other")
        return value, host.trace

    value, trace = asyncio.run(call())
    assert value == {"code": "internal_error", "message": SENTENCES["internal_error"]}
    assert trace == []


@pytest.mark.parametrize(
    ("name", "given"),
    [("schedule_list", {"limit": 5, "id": None}), ("schedule_delete", {"id": "x", "force": True})],
)
def test_list_and_delete_ignore_extra_arguments(name, given):
    value, _, _ = answer(name, given)
    assert value in ([], {"id": "x", "deleted": False, "code": "schedule_not_found"})
