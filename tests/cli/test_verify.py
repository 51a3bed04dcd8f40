"""``schedule-sm verify``: what is wrong, where, and what was expected."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.cli import app
from schedule_sm.cli import verify as command
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.embedded.inbox import MESSAGE, TURN_ENDED, TURN_STARTED, WITHDRAWN
from schedule_sm.stores.protocol import StoredEvent
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, delete, dispatch, log


def message(schedule_id: str, number: int = 1) -> dict[str, Any]:
    return {"id": f"m{number}", "text": "", "source": {}, "metadata": {"schedule_id": schedule_id}}


ENDED = {
    "message": "m",
    "message_seq": 0,
    "attempt": 1,
    "format": "f",
    "items": [],
    "reply": "",
    "error": None,
}
SPOILT: list[tuple[str, Any]] = [
    (MESSAGE, {"text": "x", "source": {}, "metadata": {}}),
    (MESSAGE, {**message("s"), "id": ["m"]}),
    (MESSAGE, {**message("s"), "text": 5}),
    (MESSAGE, {**message("s"), "metadata": None}),
    (WITHDRAWN, {"id": ["m"]}),
    (TURN_STARTED, {"message": "m", "attempt": "x"}),
    (TURN_ENDED, {**ENDED, "message": {}}),
    (TURN_ENDED, {**ENDED, "items": None}),
    (TURN_ENDED, {**ENDED, "attempt": True}),
    (TURN_ENDED, {key: value for key, value in ENDED.items() if key != "error"}),
    (TURN_ENDED, [1]),
]


def event(seq: int, type_: str, data: object) -> dict[str, Any]:
    return {"seq": seq, "type": type_, "time": 0, "data": data}


def test_sound_store_is_a_quiet_success(tmp_path: Path) -> None:
    events = stored(log(create("schedule-1"), "x/y", dispatch("schedule-1"), create("schedule-2")))
    path = write_store(tmp_path / "a.db", {"a": events, "b": ()})
    ran = run("verify", path)
    assert (ran.code, ran.out, ran.err) == (0, f"{path}: 1 session, 4 events, nothing wrong\n", "")


@pytest.mark.parametrize(
    ("events", "line"),
    [
        (
            log(create("schedule-1"), create("schedule-1")),
            "event 1: id 'schedule-1' is created a second time; expected an id that is free, such as 'schedule-2'",
        ),
        (
            log(create("schedule-1"), delete("schedule-2")),
            "event 1: delete of 'schedule-2', which is not active; expected an active id ('schedule-1')",
        ),
        (
            log(dispatch("schedule-1")),
            "event 0: dispatch of 'schedule-1', which is not active; expected no such change, as nothing is active",
        ),
        (
            log(*(create(f"schedule-{n}") for n in range(1, 6)), delete("x")),
            "expected an active id ('schedule-1', 'schedule-2', 'schedule-3' or 2 others)",
        ),
        (log({**delete("a"), "version": 2}), "version 2 was written by a newer release"),
        (log({**delete("a"), "extra": 1}), "expected exactly one create, delete or dispatch of version 1"),
        (
            [event(0, MESSAGE, message("s")), event(1, MESSAGE, message("s", 2))],
            "event 1: a second message of reminder 's'; expected one message for each reminder",
        ),
        (
            [event(0, "note", {}), event(1, TURN_ENDED, ENDED)],
            "event 1: event 0 is not the message 'm' of the turn; expected what the embedded host writes",
        ),
        (
            [event(0, MESSAGE, message("s")), event(1, TURN_ENDED, {**ENDED, "message": "other"})],
            "event 1: event 0 is not the message 'other' of the turn",
        ),
        (
            [event(0, TURN_STARTED, {})],
            "event 0: turn/started lacks what the host writes there; expected what the embedded host writes",
        ),
        *(
            (
                [event(0, type_, data), event(1, "note", {})],
                f"event 0: {type_} lacks what the host writes there; expected what the embedded host writes",
            )
            for type_, data in SPOILT
        ),
    ],
)
def test_finding_names_session_event_and_what_was_expected(
    tmp_path: Path, events: list[dict[str, Any]], line: str
) -> None:
    path = write_store(
        tmp_path / "a.db", {"good": stored(log("x/y")), "bad one": stored(events)}, wake_at=None
    )
    ran = run("verify", path, "--session", "bad one")
    assert ran.code == ExitCode.FAILED
    assert ran.out.startswith("session 'bad one', event ")
    assert line in ran.out
    assert "1 session, " in ran.err
    assert run("verify", path, "--session", "good").code == ExitCode.OK


def test_what_a_fork_inherited_is_judged_as_far_as_its_turns_are_read(tmp_path: Path) -> None:
    inherited = [event(0, MESSAGE, message("s")), event(1, TURN_ENDED, {**ENDED, "items": 7})]
    lines: list[Any] = [
        {"format": "schedule-sm/export", "version": 1, "sessions": 1},
        {"id": "fork", "header": {"seed_length": 2, "parent": "p", "created_at": 0}, "events": 2},
        *inherited,
    ]
    source = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    ran = run("import", tmp_path / "a.db", "-", stdin=source)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert "event 1: turn/ended lacks what the host writes there" in ran.err


def test_every_session_is_judged_and_a_fault_hides_no_other(tmp_path: Path) -> None:
    bad = stored(log(delete("a"), delete("b")))
    path = write_store(tmp_path / "a.db", {"one": bad, "two": bad}, wake_at=None)
    ran = run("verify", path)
    assert ran.out.count("\n") == 2
    assert "2 findings in 2 sessions, 4 events" in ran.err


def test_wrong_wake_is_found(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", {"main": stored(log(create("schedule-1")))}, wake_at=None)
    ran = run("verify", path)
    assert ran.code == ExitCode.FAILED
    assert "its next wake is none; expected 2026-08-05T12:00:00.000Z from the replay" in ran.out


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM events WHERE seq = 1", "the event has the number 2; expected 1, without a gap"),
        ("DELETE FROM events WHERE seq = 2", "2 events are there; expected 3"),
        ("UPDATE events SET body = '{' WHERE seq = 1", "event 1: its data is no JSON; expected JSON text"),
        ("UPDATE events SET body = 'NaN' WHERE seq = 1", "event 1: its data is no JSON"),
        ("UPDATE events SET time = 1000000000000000000 WHERE seq = 1", "expected an instant of the years"),
        ("UPDATE events SET type = '' WHERE seq = 1", "the event's type is empty"),
        ("UPDATE sessions SET seed_length = 9", "the seed length is 9; expected 0 to 3"),
        ("DELETE FROM sessions", "the file: events of a session 'main' that is not listed"),
    ],
)
def test_damaged_rows_are_found(tmp_path: Path, statement: str, said: str) -> None:
    path = write_store(tmp_path / "a.db", {"main": stored(log("a/b", "a/b", create("schedule-1")))})
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
    ran = run("verify", path)
    assert ran.code == ExitCode.FAILED
    assert said in ran.out


def test_damaged_pages_have_the_engine_s_words(tmp_path: Path) -> None:
    many = stored([event(seq, "x/y", "x" * 500) for seq in range(100)])
    path = write_store(tmp_path / "a.db", {"main": many})
    content = bytearray(path.read_bytes())
    content[8 * 4096 : 9 * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    assert run("verify", path).code in (ExitCode.FAILED, ExitCode.STORE_IO)


def test_inherited_part_of_a_fork_is_not_judged(tmp_path: Path) -> None:
    events: tuple[StoredEvent, ...] = stored(
        log(create("schedule-1"), "session/end-seed", create("schedule-1"))
    )
    path = write_store(tmp_path / "a.db", {"child": events}, wake_at=1_785_931_200_000)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE sessions SET seed_length = 2")
    connection.close()
    assert run("verify", path).code == ExitCode.OK


def test_findings_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.db", {"\x1b[2J": stored(log(delete("\x1b[31m\u202e")))}, wake_at=None)
    ran = run("verify", path)
    assert "\x1b" not in ran.out
    assert r"\x1b[31m" in ran.out


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_large_files_get_a_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PROGRESS_FROM", 1)
    monkeypatch.setattr(command, "_STEP", 1)
    monkeypatch.setenv("TERM", "xterm")
    drawn = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", _Terminal(drawn, encoding="utf-8"))
    path = write_store(tmp_path / "a.db", {"main": stored(log("x/y", "x/y"))})
    with pytest.raises(SystemExit):
        app.main(["verify", str(path)])
    sys.stderr.flush()
    assert b"verifying" in drawn.getvalue()
