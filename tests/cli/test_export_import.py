"""``export`` and ``import``: the same sessions come back, or nothing is written."""

from __future__ import annotations

import errno
import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.cli import export_sessions
from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.stores.protocol import StoredEvent
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, delete, dispatch, log

Lines = list[dict[str, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    events = log(
        create("schedule-1", prompt="nul \0 lone \ud83d Grüße\u2028 end"), "x/y", dispatch("schedule-1")
    )
    events.append({"seq": 3, "type": "any/thing", "time": 0, "data": [30.0, 2**70, None, {"a": "\x7f"}]})
    sessions = {"main": stored(events, [5, 6, 7, 8]), "ünï": stored(log(create("schedule-1")))}
    return write_store(tmp_path / "agent.db", sessions)


@pytest.fixture
def exported(store: Path) -> Path:
    out = store.with_name("agent.jsonl")
    assert run("export", store, "--out", out).code == ExitCode.OK
    return out


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_export_is_headers_and_events_in_the_design_s_shape(exported: Path) -> None:
    lines = lines_of(exported)
    assert lines[0] == {"format": "schedule-sm/export", "version": 1, "sessions": 2}
    header = {"seed_length": 0, "parent": None, "created_at": 1_785_931_200_000}
    assert lines[1] == {"id": "main", "header": header, "events": 4}
    assert [list(line) for line in lines[2:6]] == [["seq", "type", "time", "data"]] * 4
    assert lines[6] == {"id": "ünï", "header": header, "events": 1}
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600


def test_stdout_and_out_are_the_same_bytes_and_a_session_can_be_chosen(store: Path, exported: Path) -> None:
    assert run("export", store).out == exported.read_text("ascii")
    chosen = run("export", store, "--session", "ünï").out
    assert [json.loads(line).get("id") for line in chosen.splitlines()] == [None, "ünï", None]


def test_round_trip_gives_the_same_bytes_and_a_sound_store(store: Path, exported: Path) -> None:
    copy = store.with_name("copy.db")
    assert run("import", copy, exported).out == f"imported 2 sessions with 5 events into {copy}\n"
    assert run("export", copy).out == exported.read_text("ascii")
    assert run("verify", copy).code == ExitCode.OK
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert run("import", store.with_name("piped.db"), "-", stdin=exported.read_bytes()).code == ExitCode.OK


def test_body_that_another_program_wrote_over_lines_or_in_more_than_ascii_comes_back_as_its_data(
    tmp_path: Path,
) -> None:
    bodies = ['{\n "a": "é",\r\n "b": [1, 2.50]\n}', '"Grüße 🎁"', '"half \\ud83d"']
    events = tuple(StoredEvent(seq, "any/thing", 0, body) for seq, body in enumerate(bodies))
    path, out = write_store(tmp_path / "a.db", {"main": events}), tmp_path / "a.jsonl"
    assert run("export", path, "--out", out).code == ExitCode.OK
    assert [line["data"] for line in lines_of(out)[2:]] == [json.loads(body) for body in bodies]
    assert run("import", tmp_path / "b.db", out).code == ExitCode.OK
    again = run("export", tmp_path / "b.db").out
    assert [json.loads(line)["data"] for line in again.splitlines()[2:]] == [
        json.loads(body) for body in bodies
    ]
    assert run("import", tmp_path / "c.db", "-", stdin=again.encode()).code == ExitCode.OK
    assert run("export", tmp_path / "c.db").out == again


def test_a_number_that_only_text_can_hold_is_exported_as_it_stands(tmp_path: Path) -> None:
    bodies = ['["é",\n1e999]', '{"ü": 1.00000000000000000001, "b": -0, "b": 1}']
    events = tuple(StoredEvent(seq, "any/thing", 0, body) for seq, body in enumerate(bodies))
    ran = run("export", write_store(tmp_path / "a.db", {"main": events}))
    assert ran.code == ExitCode.OK
    texts = [line.split('"data":')[1] for line in ran.out.splitlines()[2:]]
    assert texts == ['["\\u00e9", 1e999]}', '{"\\u00fc": 1.00000000000000000001, "b": -0, "b": 1}}']


def test_forks_keep_their_header(tmp_path: Path) -> None:
    header = {"seed_length": 2, "parent": "main", "created_at": 7}
    events = log(create("schedule-1"), "session/end-seed", create("schedule-1"))
    lines: Lines = [
        {"format": "schedule-sm/export", "version": 1, "sessions": 1},
        {"id": "child", "header": header, "events": 3},
        *events,
    ]
    source = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    assert run("import", tmp_path / "a.db", "-", stdin=source).code == ExitCode.OK
    assert json.loads(run("export", tmp_path / "a.db").out.splitlines()[1])["header"] == header
    assert run("verify", tmp_path / "a.db").code == ExitCode.OK


def _set(number: int, key: str, value: object) -> Callable[[Lines], object]:
    return lambda lines: lines[number].__setitem__(key, value)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: lines.pop(), "line 8: it ends where an event of session 'ünï' should stand"),
        (lambda lines: lines.append({}), "line 9: there is more than the counts announce"),
        (lambda lines: lines.pop(0), 'does not begin with {"format"'),
        (_set(0, "version", 2), "the export's version is 2, this release reads 1"),
        (_set(0, "extra", 2), "line 1: the keys must be exactly format, version, sessions"),
        (_set(1, "id", ""), "line 2: id must be non-empty text"),
        (_set(1, "id", "\ud83d"), "line 2: id must be non-empty text without lone surrogates"),
        (_set(1, "events", True), "line 2: events must be a whole number from 0, not True"),
        (_set(1, "header", []), "line 2: header must be an object"),
        (_set(2, "time", "now"), "line 3: time must be epoch ms"),
        (_set(2, "time", 10**18), "line 3: time must be epoch ms of the years 1 to 9999"),
        (_set(2, "type", None), "line 3: type must be non-empty text"),
        (
            _set(2, "data", float("nan")),
            "line 3: an event of session 'main' should stand there and it is no JSON",
        ),
        (_set(3, "seq", 7), "session 'main', event 1: the event has the number 7; expected 1"),
        (_set(4, "data", delete("schedule-4")), "session 'main', event 2: delete of 'schedule-4'"),
        (_set(6, "id", "main"), "session 'main': it stands there a second time"),
        (
            lambda lines: lines[1]["header"].__setitem__("seed_length", 9),
            "the seed length is 9; expected 0 to 4",
        ),
    ],
)
def test_nothing_is_written_if_anything_is_wrong(
    exported: Path, spoil: Callable[[Lines], object], said: str
) -> None:
    lines = lines_of(exported)
    spoil(lines)
    source = exported.with_name("spoilt.jsonl")
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    copy = exported.with_name("copy.db")
    ran = run("import", copy, source)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert not copy.exists()


@pytest.mark.parametrize("source", [b"", b"\xff\xfe\n", b"[" * 100_000, b"[]\n", b"9" * 5_000 + b"\n"])
def test_rubbish_is_refused_in_one_line(tmp_path: Path, source: bytes) -> None:
    ran = run("import", tmp_path / "a.db", "-", stdin=source)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "a.db").exists()


def test_session_that_is_there_already_refuses_the_others_too(store: Path, exported: Path) -> None:
    target = write_store(store.with_name("other.db"), {"ünï": stored(log("x/y"))})
    before = run("export", target).out
    ran = run("import", target, exported)
    assert ran.code == ExitCode.IMPORT_REFUSED
    assert "holds 'ünï' already; nothing was imported" in ran.err
    assert run("export", target).out == before
    connection = sqlite3.connect(target)
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
    connection.close()


def test_export_refuses_rows_that_are_not_whole(store: Path) -> None:
    connection = sqlite3.connect(store)
    with connection:
        connection.execute("DELETE FROM events WHERE session = 'main' AND seq = 1")
    connection.close()
    ran = run("export", store, "--out", store.with_name("x.jsonl"))
    assert ran.code == ExitCode.CORRUPT_LOG
    assert "'main' is corrupt at event 1" in ran.err
    assert not store.with_name("x.jsonl").exists()


def test_export_overwrites_nothing(store: Path) -> None:
    before = store.read_bytes()
    ran = run("export", store, "--out", store)
    assert ran.code == ExitCode.FAILED
    assert "exists; remove it first, or name another file" in ran.err
    assert store.read_bytes() == before
    assert run("export", store, "--out", store.parent / "no" / "x").code == ExitCode.FOLDER_MISSING


def test_source_that_is_missing_or_a_folder_has_its_own_line(tmp_path: Path) -> None:
    assert run("import", tmp_path / "a.db", tmp_path / "no").code == ExitCode.STORE_MISSING
    assert run("import", tmp_path / "a.db", tmp_path / "no" / "no").code == ExitCode.FOLDER_MISSING
    assert "is a folder" in run("import", tmp_path / "a.db", tmp_path).err


def test_debug_shows_the_traceback_of_what_is_one_line_otherwise(store: Path) -> None:
    connection = sqlite3.connect(store)
    with connection:
        connection.execute("DELETE FROM events WHERE session = 'main' AND seq = 1")
    connection.close()
    ran = run("--debug", "export", store, "--out", store.with_name("x\x1b[31m"))
    assert ran.code == ExitCode.CORRUPT_LOG
    assert "ScheduleLogError" in ran.err
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, ExitCode.DISK_FULL), (errno.EIO, ExitCode.STORE_IO)]
)
def test_export_that_cannot_be_written_leaves_no_file(
    store: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: ExitCode
) -> None:
    def fail(*_: object) -> Iterator[str]:
        yield "a line"
        raise OSError(number, "scripted")

    monkeypatch.setattr(export_sessions, "export_lines", fail)
    out = store.with_name("x.jsonl")
    ran = run("export", store, "--out", out)
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert not out.exists()
    assert run("export", store).code == code  # the same of stdout
