"""What is wrong with a folder, as one line with the next step; and the names of files."""

from __future__ import annotations

import json
import logging
import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_sm.stores import held_lock, jsonl_folder
from schedule_sm.stores.errors import (
    FolderMissingError,
    NewerSchemaError,
    NotADatabaseError,
    SessionUnknownError,
    StoreError,
    StoreLockedError,
    StoreMissingError,
    StoreReadOnlyError,
)
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_folder import MARK, file_name, likely_id
from schedule_sm.testing.store_contract import NOW_MS, append_of

IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


async def refused(path: Path, kind: type[Exception]) -> Exception:
    with pytest.raises(kind) as caught:
        await JsonlStore.open(path)
    assert "\n" not in str(caught.value)
    return caught.value


@given(IDS, IDS)
def test_no_two_ids_share_a_file_and_none_leaves_the_folder(one: str, other: str) -> None:
    names = {session_id: file_name(session_id) for session_id in (one, other)}
    for name in names.values():
        assert name.isascii()
        assert len(name) < 255
        assert set(name) <= set(string.ascii_letters + string.digits + "_-%~.")
        assert not name.startswith(".")
        assert Path(name).name == name
    assert (one == other) == (names[one].casefold() == names[other].casefold())


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("main", "main.jsonl"),
        ("Main", "%4Dain.jsonl"),
        ("..", "%2E%2E.jsonl"),
        ("a/b\\c:d", "a%2Fb%5Cc%3Ad.jsonl"),
        ("nul", "%6Eul.jsonl"),
        ("ü\0", "%C3%BC%00.jsonl"),
    ],
)
def test_names_are_percent_encoded(session_id: str, name: str) -> None:
    assert file_name(session_id) == name
    assert likely_id(Path(name)) == session_id


@pytest.mark.asyncio
async def test_a_missing_folder_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    error = await refused(tmp_path / "no" / "store", FolderMissingError)
    assert str(tmp_path / "no") in str(error)
    with pytest.raises(FolderMissingError):
        JsonlStore.open_read_only(tmp_path / "no" / "store")
    with pytest.raises(StoreMissingError):
        JsonlStore.open_read_only(tmp_path / "store")
    assert not os.listdir(tmp_path)


@pytest.mark.asyncio
async def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Sir")
    await refused(letter, NotADatabaseError)
    await refused(tmp_path, NotADatabaseError)
    assert os.listdir(tmp_path) == ["letter.txt"]
    for mark in ('{"format": "other", "version": 1}', "no json", "[]"):
        folder = tmp_path / "marked"
        folder.mkdir(exist_ok=True)
        (folder / MARK).write_text(mark)
        await refused(folder, NotADatabaseError)
        with pytest.raises(NotADatabaseError):
            JsonlStore.open_read_only(folder)


@pytest.mark.asyncio
async def test_a_newer_form_is_refused(tmp_path: Path) -> None:
    await (await JsonlStore.open(tmp_path / "store")).close()
    (tmp_path / "store" / MARK).write_text(json.dumps({"format": jsonl_folder.FORMAT, "version": 9}))
    error = await refused(tmp_path / "store", NewerSchemaError)
    assert isinstance(error, NewerSchemaError)
    assert (error.found, error.known) == (9, 1)


@pytest.mark.parametrize("which", ["store", ""])
@pytest.mark.asyncio
async def test_a_read_only_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    if which:
        await (await JsonlStore.open(tmp_path / "store")).close()
    allowed = os.access  # the tests may run as root, to whom permissions mean nothing
    monkeypatch.setattr(
        jsonl_folder.os, "access", lambda path, mode: Path(path) != tmp_path / which and allowed(path, mode)
    )
    error = await refused(tmp_path / "store", StoreReadOnlyError)
    assert str(tmp_path / which) in str(error)


@pytest.mark.asyncio
async def test_a_second_host_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    with pytest.raises(StoreLockedError, match=f"process {os.getpid()} since 20") as caught:
        await JsonlStore.open(tmp_path / "store")
    assert caught.value.pid == os.getpid()
    (tmp_path / "store" / ".holder").write_text("garbage")
    with pytest.raises(StoreLockedError, match="another host"):
        await JsonlStore.open(tmp_path / "store")
    await store.close()
    await (await JsonlStore.open(tmp_path / "store")).close()


@pytest.mark.parametrize(("number", "code"), [(28, "disk_full"), (30, "read_only"), (5, "store_io")])
@pytest.mark.asyncio
async def test_what_the_system_refuses_while_opening_is_named_and_nothing_stays_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for owner, name in ((jsonl_folder, "write_mark"), (held_lock.FileLock, "acquire"), (Path, "mkdir")):
        folder = tmp_path / name
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, refuse)
            with pytest.raises(StoreError) as caught:
                await JsonlStore.open(folder)
        assert caught.value.code == code
        await (await JsonlStore.open(folder)).close()


@pytest.mark.asyncio
async def test_exposed_files_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    await store.acquire("s", NOW_MS)
    await store.close()
    with caplog.at_level(logging.WARNING):
        await (await JsonlStore.open(tmp_path / "store")).close()
        assert caplog.text == ""
        (tmp_path / "store" / "s.jsonl").chmod(0o644)
        await (await JsonlStore.open(tmp_path / "store")).close()
    assert "s.jsonl can be read by other users of this machine; run `chmod 600` on it" in caplog.text


@pytest.mark.asyncio
async def test_a_reader_sees_what_was_there_at_its_first_look(tmp_path: Path) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("Long" * 100, NOW_MS)
    await store.acquire("empty", NOW_MS)
    await store.append([append_of(info, 3)])
    with JsonlStore.open_read_only(tmp_path / "store") as reader:
        assert [(info.id, info.next_seq) for info in reader.sessions()] == [(info.id, 3)]
        info = reader.session(info.id)
        await store.append([append_of(info, 2)])
        assert reader.sessions() == [info]
        assert [event.seq for event in reader.events(info.id, 0, types=["note"])] == [1, 2]
        assert reader.damage() == []
        with pytest.raises(SessionUnknownError, match="did you mean 'empty'"):
            reader.session("emty")
    await store.close()
