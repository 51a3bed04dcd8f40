"""What the built-in runner understands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from schedule_sm.core.framing import render_reminder_framing
from schedule_sm.embedded.builtin_runner import present_reminder, render_duration
from schedule_sm.embedded.requests import Delete, ListAll, Remind, Unclear, parse_request


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("remind me in 3 seconds to stretch", Remind("stretch", 3)),
        ("Remind me in five minutes to drink water", Remind("drink water", 300)),
        ("please remind me in 1 hour and 30 minutes to call Ann", Remind("call Ann", 5_400)),
        ("remind me in twenty-five minutes about the cake", Remind("the cake", 1_500)),
        ("remind me in twenty five seconds: tea", Remind("tea", 25)),
        ("remind me in half an hour to leave", Remind("leave", 1_800)),
        ("remind me in an hour to leave", Remind("leave", 3_600)),
        ("remind me in 1.5 seconds to blink", Remind("blink", 2)),
        ("remind me in 10s to blink", Remind("blink", 10)),
        ("remind me after 2 days to water the plants", Remind("water the plants", 172_800)),
        ("remind me to stretch in 10 minutes", Remind("stretch", 600)),
        ("remind me to log in in 10 min.", Remind("log in", 600)),
        ("remind me in a week to pay", Remind("pay", 604_800)),
        ("remind me in 3 seconds to say\ntwo lines", Remind("say\ntwo lines", 3)),
        ("remind me in 0 seconds to fail", Remind("fail", 0)),
        ("remind me to stretch in 1 hour and thirty minutes", Remind("stretch", 5_400)),
        ("remind me in 1 hour, 2 min , and 3s to call", Remind("call", 3_723)),
        ("remind me in 1 hour,and two minutes: call", Remind("call", 3_720)),
        ("remind me about   two  spaces   in 5 min", Remind("two  spaces", 300)),
        ("remind me to go and 5 min later in 1 h", Remind("go and 5 min later", 3_600)),
        ("remind me in 10 minutes, last minute", Remind("last minute", 600)),
        ("remind me in an hour every second", Remind("every second", 3_600)),
        ("remind me to rest in \u017fix \u017feconds", Remind("rest", 6)),
        ("remind me in 1 hour 5 minutes", Unclear()),
        ("remind me to   in 5 minutes", Unclear()),
        (f"remind me in {'9' * 400} seconds to fail", Unclear()),
        ("remind me in many minutes to fail", Unclear()),
        ("remind me to stretch", Unclear()),
        ("list", ListAll()),
        ("List my reminders.", ListAll()),
        ("show all reminders", ListAll()),
        ("what are my reminders?", ListAll()),
        ("delete schedule-1", Delete("schedule-1")),
        ("cancel reminder 2.", Delete("schedule-2")),
        ("remove #3", Delete("schedule-3")),
        ("cancel the reminder schedule-4", Delete("schedule-4")),
        ("hello", Unclear()),
        ("", Unclear()),
    ],
)
def test_plain_requests_are_understood(text: str, request_: object) -> None:
    assert parse_request(text) == request_


def test_a_long_text_that_is_no_request_is_read_once() -> None:
    # in a process of its own: an expression that tries every split of these never ends, and nothing can stop it
    texts = ["remind me to x in" + " 1 s" * 40 + " y", "remind me to x" + " " * 30_000 + "y"]
    texts.append("remind me to x " + "in one h " * 5_000 + "y")
    code = (
        "from schedule_sm.embedded.requests import parse_request\n"
        f"for text in {texts!r}: print(parse_request(text))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=10, check=True)
    assert ran.stdout == "Unclear()\n" * 3


def test_a_reminder_is_presented_with_how_late_it_is() -> None:
    framing = render_reminder_framing("schedule-1", "1970-01-01T00:10:00.000Z", 'drink "water"\nnow')
    assert (
        present_reminder(framing, 600_999)
        == 'Reminder: drink "water"\nnow (due 1970-01-01 00:10:00 UTC, on time)'
    )
    assert present_reminder(framing, 602_000).endswith("2 seconds late)")
    assert present_reminder(framing, 600_000 + 3_600_000 * 25).endswith("1 day 1 hour late)")


def test_durations_have_at_most_two_units() -> None:
    assert render_duration(0) == "0 seconds"
    assert render_duration(90_061) == "1 day 1 hour"
    assert render_duration(61) == "1 minute 1 second"
