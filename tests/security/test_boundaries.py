"""What must not cross a border: another session's reminders, exception texts, paths, prompts, other users' eyes."""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.core.errors import SENTENCES
from schedule_sm.embedded import ScheduleHost
from schedule_sm.embedded.encoded_log import encode_data
from schedule_sm.stores.protocol import Append, StoredEvent
from schedule_sm.testing.store_contract import NOW_MS
from tests.cli.running import run
from tests.embedded.scripted import ScriptedRunner, ScriptedStore, by_agent
from tests.security.hostile import STORES, open_store

SECRET = "meet the informant at the old mill"
PATH = "/home/alice/private/agent.db"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.asyncio
async def test_no_id_reaches_another_sessions_reminders(tmp_path: Path, kind: str) -> None:
    store = await open_store(kind, tmp_path)
    async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
        victim = by_agent((await host.session("victim")).agent)
        attacker_session = await host.session("attacker")
        attacker = by_agent(attacker_session.agent)
        for _ in range(3):
            await victim["create"].invoke({"prompt": SECRET, "after_seconds": 3600})
        before = (await victim["list"].invoke({})).value
        for tried in (
            *(view["id"] for view in before),
            "victim/schedule-1",
            "../victim/schedule-1",
            "schedule-1' OR '1'='1",
            "schedule-1\0",
            "%",
            "*",
            "schedule-1\ud800",
        ):
            answer = (await attacker["delete"].invoke({"id": tried})).value
            assert answer.get("deleted", False) is False
        for extra in ({"session": "victim"}, {"session_id": "victim", "agent": "victim"}):
            assert (await attacker["list"].invoke(extra)).value == []
            assert (await attacker["delete"].invoke({"id": "schedule-1", **extra})).value["deleted"] is False
        for name, arguments in (("list", {}), ("delete", {"id": "schedule-1"})):
            stolen = await victim[name].tool.execute(arguments, attacker_session.agent)
            assert stolen.value["code"] == "internal_error"
            assert SECRET not in stolen.content
        assert (await victim["list"].invoke({})).value == before
        assert len(attacker_session.events) == 0
    await store.close()


def formatted(records: list[logging.LogRecord]) -> str:
    """Return everything of ``records`` that a log could show, tracebacks and attributes included."""
    formatter = logging.Formatter("%(name)s %(message)s")
    return "\n".join(f"{formatter.format(record)} {record.__dict__!r}" for record in records)


def modes_in(folder: Path) -> dict[Path, int]:
    """Return the permissions of every file."""
    return {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def told(values: list[Any]) -> str:
    return json.dumps(values)


@pytest.mark.asyncio
async def test_a_store_that_raises_tells_the_model_a_fixed_sentence_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Leaky(ScriptedStore):
        async def append(self, batch: Any) -> Any:
            if any(append.events for append in batch):
                raise PermissionError(13, "denied by the backend", PATH)
            return await super().append(batch)

    with caplog.at_level(logging.DEBUG):
        async with ScheduleHost.open(store=Leaky(), runner=ScriptedRunner(), flush_timeout_s=0.05) as host:
            tools = by_agent((await host.session("main")).agent)
            values = [
                (await tools["create"].invoke({"prompt": SECRET, "after_seconds": 60})).value,
                (await tools["list"].invoke({})).value,
                (await tools["delete"].invoke({"id": "schedule-1"})).value,
            ]
    assert [value["code"] for value in values] == ["persistence_uncertain"] * 3
    assert {value["message"] for value in values} == {SENTENCES["persistence_uncertain"]}
    assert not [word for word in (PATH, "denied", "PermissionError", SECRET) if word in told(values)]
    assert "Traceback" in formatted(caplog.records), "the operator is told why"
    assert SECRET not in formatted(caplog.records)


@pytest.mark.parametrize(
    "spoil",
    [
        {"afterSeconds": SECRET},
        {"extra": SECRET},
        {"prompt": f" {SECRET}"},
        {"scheduledAt": SECRET},
        {"kind": SECRET},
        {"id": f" {SECRET}"},
        {"prompt": [SECRET]},
    ],
    ids=str,
)
@pytest.mark.asyncio
async def test_a_corrupt_log_is_reported_without_its_contents(
    spoil: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    store = ScriptedStore()
    info = await store.acquire("main", NOW_MS)
    schedule = {
        "id": "schedule-1",
        "kind": "after",
        "prompt": SECRET,
        "afterSeconds": 60,
        "scheduledAt": "2030-01-01T00:00:00.000Z",
    }
    body = encode_data({"version": 1, "operation": "create", "schedule": schedule | spoil})
    await store.append([Append("main", info.epoch, 0, (StoredEvent(0, "schedule/change", 0, body),), None)])
    await store.append([Append("main", info.epoch, 1, (), None, let_go=True)])
    with caplog.at_level(logging.DEBUG):
        async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
            tools = by_agent((await host.session("main")).agent)
            values = [
                (await tools["create"].invoke({"prompt": SECRET, "after_seconds": 60})).value,
                (await tools["list"].invoke({})).value,
                (await tools["delete"].invoke({"id": "schedule-1"})).value,
            ]
    assert [value["code"] for value in values] == ["corrupt_schedule_log"] * 3
    assert SECRET not in told(values)
    assert caplog.records
    assert SECRET not in formatted(caplog.records)


@pytest.mark.parametrize(
    "arguments",
    [
        SECRET,
        {"prompt": SECRET},
        {"prompt": SECRET, "after_seconds": SECRET},
        {"prompt": SECRET, "after_seconds": 2**53 - 1},
        {"prompt": SECRET, "after_seconds": 1, "at": SECRET},
        {"prompt": [SECRET], "after_seconds": 1},
    ],
    ids=str,
)
@pytest.mark.asyncio
async def test_wrong_arguments_are_not_repeated_in_the_answer(
    arguments: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with ScheduleHost.open(store=ScriptedStore(), runner=ScriptedRunner()) as host:
            tools = by_agent((await host.session("main")).agent)
            value = (await tools["create"].invoke(arguments)).value
    assert value == {"code": value["code"], "message": SENTENCES[value["code"]]}
    assert SECRET not in formatted(caplog.records)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.asyncio
async def test_store_files_are_private_and_a_readable_one_is_warned_about(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.umask(0)
    try:
        store = await open_store(kind, tmp_path)
        async with ScheduleHost.open(store=store, runner=ScriptedRunner()) as host:
            tools = by_agent((await host.session("main")).agent)
            await tools["create"].invoke({"prompt": SECRET, "after_seconds": 3600})
            modes = modes_in(tmp_path)
        await store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes
    holding = [path for path in modes if path.exists() and SECRET.encode() in path.read_bytes()]
    assert holding
    for path in holding:
        path.chmod(0o604)
        with caplog.at_level(logging.WARNING):
            await (await open_store(kind, tmp_path)).close()
        assert f"{path} can be read by other users of this machine; run `chmod 600` on it" in caplog.text
        path.chmod(0o600)


def test_what_the_command_line_writes_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = tmp_path / "a.db"
        assert run("chat", "--store", store, stdin=b"remind me in 5 minutes to stretch\n").code == 0
        assert run("export", store, "--out", tmp_path / "out").code == 0
        assert run("import", tmp_path / "b.db", tmp_path / "out").code == 0
        assert run("convert", store, tmp_path / "folder").code == 0
        assert run("convert", tmp_path / "folder", tmp_path / "c.db").code == 0
    finally:
        os.umask(before)
    modes = modes_in(tmp_path)
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
