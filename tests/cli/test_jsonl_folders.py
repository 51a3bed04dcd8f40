"""The commands take a JSONL folder as they take an SQLite file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import time_machine

from schedule_sm.cli.exit_codes import ExitCode
from schedule_sm.stores.jsonl import JsonlStore
from tests.cli.running import run, stored, write_store
from tests.core.logs import create, delete, log


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write_store(
        tmp_path / "agent.db",
        {
            "main": stored(log(create("schedule-1"), create("schedule-2"), delete("schedule-1"))),
            "Other/2": stored(log(create("schedule-1"))),
        },
    )


@pytest.fixture
def folder(database: Path, tmp_path: Path) -> Path:
    assert run("convert", database, tmp_path / "agent.sessions").code == ExitCode.OK
    return tmp_path / "agent.sessions"


@pytest.mark.parametrize("only", [(), ("--session", "main")])
def test_the_same_is_read_from_either_kind_of_store(
    database: Path, folder: Path, only: tuple[str, ...]
) -> None:
    assert run("export", folder, *only) == run("export", database, *only)
    with time_machine.travel(1_785_931_300, tick=False):
        shown = [json.loads(run("inspect", store, "--json", *only).out) for store in (folder, database)]
    assert shown[0]["store"] == str(folder)
    assert shown[0]["sessions"] == shown[1]["sessions"]
    verified = run("verify", folder, *only)
    assert verified.code == ExitCode.OK
    assert verified.out.removeprefix(str(folder)) == run("verify", database, *only).out.removeprefix(
        str(database)
    )


def test_a_folder_that_a_host_holds_is_read(folder: Path) -> None:
    async def hold() -> int:
        store = await JsonlStore.open(folder)
        try:
            return (await asyncio.to_thread(run, "verify", folder)).code
        finally:
            await store.close()

    assert asyncio.run(hold()) == ExitCode.OK


def test_a_folder_is_talked_to(folder: Path) -> None:
    said = b"remind me in 10 minutes to stretch\n"
    ran = run("chat", "--store", folder, "--session", "new", stdin=said)
    assert (ran.code, ran.err.startswith("1 reminder is pending, ")) == (ExitCode.OK, True)
    assert "stretch" in run("export", folder, "--session", "new").out
    assert run("verify", folder).code == ExitCode.OK


@pytest.mark.parametrize("command", ["chat", "mcp"])
def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path, command: str) -> None:
    ran = run(command, "--store", tmp_path)
    assert (ran.code, ran.out) == (ExitCode.NOT_A_DATABASE, "")
    assert list(tmp_path.iterdir()) == []


def test_verify_names_every_damaged_file_and_judges_the_others(folder: Path) -> None:
    file = folder / "main.jsonl"
    content = bytearray(file.read_bytes())
    content[-30] ^= 1
    file.write_bytes(content)
    (folder / "copy.jsonl").write_bytes((folder / "%4Fther%2F2.jsonl").read_bytes())
    ran = run("verify", folder)
    assert ran.code == ExitCode.FAILED
    first, second = ran.out.splitlines()
    assert first == "the file: copy.jsonl is damaged in line 1 at byte 0: it holds session 'Other/2'; expected an undamaged file"  # fmt: skip
    assert second.startswith("the file: main.jsonl is damaged in line 4 at byte ")
    assert "2 findings in 1 session, 1 event" in ran.err
    for command in ("inspect", "export"):
        assert run(command, folder).code == ExitCode.STORE_IO
        assert run(command, folder, "--session", "Other/2").code == ExitCode.OK


@pytest.mark.parametrize("command", ["inspect", "verify", "export"])
def test_a_folder_that_is_no_store_is_told_so(tmp_path: Path, command: str) -> None:
    ran = run(command, tmp_path)
    assert ran.code == ExitCode.NOT_A_DATABASE
    assert "schedule-sm.json" in ran.err


@pytest.mark.parametrize("command", ["inspect", "verify", "export"])
def test_an_unknown_session_is_answered_with_the_nearest_ids(folder: Path, command: str) -> None:
    ran = run(command, folder, "--session", "mian")
    assert (ran.code, "did you mean 'main'?" in ran.err) == (ExitCode.SESSION_UNKNOWN, True)
