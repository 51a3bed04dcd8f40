"""``schedule-sm inspect``: what is shown, and the stable ``--json`` form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.cli import inspect as command
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.core.instants import parse_instant
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED
from schedule_sm.stores.protocol import StoredEvent
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, delete, dispatch, log

START = parse_instant("2026-08-05T12:00:00.000Z")
NOW = parse_instant("2026-08-05T12:10:00.000Z")
MINUTE = 60_000


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "wall_ms", lambda: NOW)
    monkeypatch.setenv("COLUMNS", "150")


def main_session() -> tuple[StoredEvent, ...]:
    events = log(
        create("schedule-1", at="2026-08-05T12:01:00.000Z", prompt="came"),
        create("schedule-2", at="2026-08-05T12:02:00.000Z", prompt="late"),
        create("schedule-3", at="2026-08-05T13:00:00.000Z", prompt="[red]ahead[/red]"),
        create("schedule-4", at="2026-08-05T14:00:00.000Z", prompt="gone\x1b[2J\u202e"),
        dispatch("schedule-1"),
        delete("schedule-4"),
    )
    times = [START, START, START, START, START + 3 * MINUTE, START + 4 * MINUTE]
    return stored(events, times)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "agent.db", {"main": main_session(), "other": stored(log("x/y"))})


def reminders(store: Path) -> dict[str, Any]:
    (session,) = json.loads(run("inspect", store, "--session", "main", "--json").out)["sessions"]
    return {reminder["id"]: reminder for reminder in session["reminders"]}


def test_json_form_is_version_1_and_stable(store: Path) -> None:
    ran = run("inspect", store, "--json")
    assert ran.code == ExitCode.OK
    assert ran.out.isascii()
    answer = json.loads(ran.out)
    assert list(answer) == ["format", "version", "store", "readAt", "sessions"]
    assert (answer["format"], answer["version"], answer["readAt"]) == (
        "schedule-sm/inspect",
        1,
        "2026-08-05T12:10:00.000Z",
    )
    assert [session["id"] for session in answer["sessions"]] == ["main", "other"]
    assert answer["sessions"][1] == {
        "id": "other",
        "parent": None,
        "seedLength": 0,
        "events": 1,
        "createdAt": "2026-08-05T12:00:00.000Z",
        "wakeAt": None,
        "reminders": [],
        "error": None,
    }
    assert reminders(store)["schedule-1"] == {
        "id": "schedule-1",
        "state": "dispatched",
        "prompt": "came",
        "afterSeconds": 30,
        "scheduledAt": "2026-08-05T12:01:00.000Z",
        "createdAt": "2026-08-05T12:00:00.000Z",
        "createdSeq": 0,
        "endedAt": "2026-08-05T12:03:00.000Z",
        "endedSeq": 4,
        "lateMs": 2 * MINUTE,
        "turn": None,
    }


def test_json_keys_are_all_described_in_the_help(store: Path) -> None:
    answer = json.loads(run("inspect", store, "--json").out)
    described = " ".join(run("inspect", "--help").out.split())
    session = answer["sessions"][0]
    for key in {*answer, *session, *session["reminders"][0]}:
        assert key in described, key


def test_states_are_told_apart(store: Path) -> None:
    found = reminders(store)
    assert [found[f"schedule-{n}"]["state"] for n in (1, 2, 3, 4)] == [
        "dispatched",
        "overdue",
        "scheduled",
        "deleted",
    ]
    assert [found[f"schedule-{n}"]["lateMs"] for n in (2, 3, 4)] == [8 * MINUTE, None, None]


def test_message_of_a_dispatched_reminder_is_followed_to_its_turn(tmp_path: Path) -> None:
    events = log(create("schedule-1"), "m", dispatch("schedule-1"), "s")
    message = {"id": "main/schedule-1", "text": "", "source": {}, "metadata": {"schedule_id": "schedule-1"}}
    events[1] |= {"type": MESSAGE, "data": message}
    events[3] |= {"type": TURN_STARTED, "data": {"message": "main/schedule-1", "attempt": 1}}
    path = write_store(tmp_path / "a.db", {"main": stored(events)})
    assert reminders(path)["schedule-1"]["turn"] == "started"
    assert "turn started" in run("inspect", path).out
    ended = {"message": "main/schedule-1", "message_seq": 1, "attempt": 1, "format": "f", "items": []}
    ended |= {"reply": "", "error": None}
    events.append({"seq": 4, "type": TURN_ENDED, "time": 0, "data": ended})
    path = write_store(tmp_path / "b.db", {"main": stored(events)})
    assert reminders(path)["schedule-1"]["turn"] == "ended"


@pytest.mark.parametrize("columns", ["20", "40", "80", "150"])
def test_people_are_shown_everything_at_any_width(
    store: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = run("inspect", store).out
    for part in (
        "session main",
        "session other",
        "schedule-2",
        "overdue",
        "8 min",
        "2026-08-05T12:02:00.000Z",
    ):
        assert part in shown
    assert ("◆" in shown) == (int(columns) >= 40)


def test_prompts_are_neither_markup_nor_terminal_escapes(store: Path) -> None:
    shown = run("inspect", store).out
    assert "[red]ahead[/red]" in shown
    assert r"gone\x1b[2J\u202e" in shown
    assert "\x1b" not in shown


def test_ascii_terminal_gets_an_ascii_timeline(store: Path) -> None:
    shown = run("inspect", store, encoding="ascii").out
    assert "[--" in shown
    assert "◆" not in shown


def test_corrupt_session_is_shown_up_to_its_fault(tmp_path: Path) -> None:
    events = stored(log(create("schedule-1"), delete("schedule-9"), create("schedule-2")))
    path = write_store(tmp_path / "a.db", {"bad": events}, wake_at=None)
    shown = run("inspect", path)
    assert shown.code == ExitCode.OK
    assert "schedule-1" in shown.out
    assert "schedule-2" not in shown.out
    assert "at event 1: delete of 'schedule-9', which is not active; `schedule-sm verify`" in shown.out
    (session,) = json.loads(run("inspect", path, "--json").out)["sessions"]
    assert session["error"]["seq"] == 1


def test_long_sessions_are_cut_to_what_matters(tmp_path: Path) -> None:
    changes = [create(f"schedule-{n}") for n in range(1, 151)]
    path = write_store(tmp_path / "a.db", {"main": stored(log(*changes))})
    assert "… and 50 more, which --json shows" in run("inspect", path).out
    assert len(reminders(path)) == 150


def test_empty_store_says_so(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", {})
    assert run("inspect", path).out == f"{path} holds no sessions yet\n"


def test_instants_outside_the_calendar_do_not_stop_it(tmp_path: Path) -> None:
    events = stored(log(create("schedule-1", at="9999-12-31T23:59:59.999Z")), [10**18])
    path = write_store(tmp_path / "a.db", {"main": events})
    assert "9999-12-31T23:59:59.999Z" in run("inspect", path).out
