"""The JSONL store: the contract, what a cut or a changed file means, and faults of the disk."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedule_sm.embedded import ScheduleHost
from schedule_sm.stores import group_commit, jsonl_bytes, jsonl_files
from schedule_sm.stores.errors import SessionUnknownError, StoreError, StoreLinkedError
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_folder import file_name
from schedule_sm.stores.jsonl_lines import DamagedLineError
from schedule_sm.stores.protocol import Append, NewSession, Outcome, StoredEvent
from schedule_sm.testing.store_contract import NOW_MS, STORE_CHECKS, append_of, run_check, stored_event
from tests.embedded.scripted import ScriptedRunner, by_agent, types_of


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.asyncio
async def test_store_keeps_the_contract(check: Any, tmp_path: Path) -> None:
    numbers = itertools.count()
    await run_check(
        check,
        lambda: JsonlStore.open(tmp_path / str(next(numbers))),
        reopen=lambda closed: JsonlStore.open(closed.path),
    )


async def three_batches(folder: Path) -> tuple[Path, list[bytes]]:
    """Write batches of 2, 3 and 2 events, with texts that end inside escapes when cut; return file and batches."""
    store = await JsonlStore.open(folder)
    info = await store.acquire("main", NOW_MS)
    file = folder / "main.jsonl"
    sizes = [file.stat().st_size]
    for count in (2, 3, 2):
        texts = ["Grüße \U0001f600", "lone \ud83d", "nul \0"]
        events = tuple(stored_event(info.next_seq + n, {"text": texts[n]}) for n in range(count))
        append = append_of(info, events=events, wake_at=info.next_seq)
        assert list(await store.append([append])) == [Outcome.COMMITTED]
        info = replace(info, next_seq=info.next_seq + count)
        sizes.append(file.stat().st_size)
    await store.close()
    content = file.read_bytes()
    assert content.isascii()
    return file, [content[start:end] for start, end in itertools.pairwise([0, *sizes])]


@pytest.mark.asyncio
async def test_tail_cut_at_every_byte_loses_the_unfinished_batch_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, (meta, first, second, third) = await three_batches(tmp_path / "store")
    monkeypatch.setattr(jsonl_bytes.os, "fsync", lambda _: None)  # 700 cuts, each opened for writing
    whole = meta + first + second + third
    for length in range(len(meta + first), len(whole) + 1):
        left = 7 if length == len(whole) else 5 if length >= len(whole) - len(third) else 2
        file.write_bytes(whole[:length])
        with JsonlStore.open_read_only(file.parent) as reader:
            assert reader.session("main").next_seq == left, length
        store = await JsonlStore.open(file.parent)
        info = await store.acquire("main", NOW_MS)
        wakes = {2: 0, 5: 2, 7: 5}
        assert (info.epoch, info.next_seq, info.wake_at) == (2, left, wakes[left]), length
        assert [event.seq for event in await store.read("main")] == list(range(left))
        assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
        assert len(await store.read("main")) == left + 2
        await store.close()


@pytest.mark.asyncio
async def test_a_file_that_never_got_its_first_line_is_a_new_session(tmp_path: Path) -> None:
    file, (meta, *_) = await three_batches(tmp_path / "store")
    for length in (0, 1, len(meta) - 1):
        file.write_bytes(meta[:length])
        store = await JsonlStore.open(file.parent)
        assert await store.live() == []
        info = await store.acquire("main", NOW_MS + 1)
        assert (info.epoch, info.next_seq, info.created_at) == (1, 0, NOW_MS + 1)
        await store.close()


@pytest.mark.asyncio
async def test_a_fork_whose_first_batch_is_cut_has_no_header(tmp_path: Path) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("child", NOW_MS)
    first = append_of(info, 3, header=NewSession(seed_length=2, parent="main"))
    assert list(await store.append([first])) == [Outcome.COMMITTED]
    await store.close()
    file = tmp_path / "store" / "child.jsonl"
    file.write_bytes(file.read_bytes()[:-1])
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("child", NOW_MS)
    assert (info.seed_length, info.parent, info.next_seq) == (0, None, 0)
    await store.close()


@pytest.mark.asyncio
async def test_every_changed_byte_is_reported_with_line_and_offset(tmp_path: Path) -> None:
    file, batches = await three_batches(tmp_path / "store")
    whole = b"".join(batches)
    starts = [0, *itertools.accumulate(len(line) for line in whole.splitlines(keepends=True))]
    for position in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[position] ^= 1
        file.write_bytes(spoilt)
        with JsonlStore.open_read_only(file.parent) as reader, pytest.raises(DamagedLineError) as caught:
            reader.session("main")
        line = max(number for number, start in enumerate(starts, 1) if start <= position)
        assert (caught.value.line, caught.value.offset) == (line, starts[line - 1]), position


def _stating(**changes: object) -> bytes:
    """A line that states the session, with a sound checksum."""
    stated: dict[str, object] = {"session": "main", "epoch": 1, "last": -1, "wake_at": None}
    stated |= {"seed_length": 0, "parent": None, "created_at": NOW_MS}
    text = json.dumps(stated | changes, separators=(",", ":"))[:-1].encode()
    return b'%b,"crc":"%08x"}\n' % (text, zlib.crc32(text))


def _without(number: int) -> Callable[[list[bytes]], object]:
    return lambda lines: lines.pop(number)


@pytest.mark.parametrize(
    ("spoil", "line", "said"),
    [
        (_without(0), 1, "the line that names the session is missing"),
        (_without(1), 2, "event 0 is missing"),
        (_without(2), 3, "event 1 is missing"),
        (_without(5), 6, "event 4 is missing"),
        (lambda lines: lines.insert(2, lines[1]), 3, "event 1 is missing"),
        (lambda lines: lines.insert(3, lines[0]), 4, "events before it are missing"),
        (lambda lines: lines.insert(2, lines[0]), 3, "the batch before it is incomplete"),
        (lambda lines: lines.__setitem__(0, _stating(wake_at="soon")), 1, "neither an event nor"),
        (lambda lines: lines.__setitem__(0, _stating(epoch=None)), 1, "neither an event nor"),
        (lambda lines: lines.__setitem__(0, _stating(last=True)), 1, "neither an event nor"),
        (lambda lines: lines.append(_stating(last=4, wake_at="soon")), 9, "neither an event nor"),
        (lambda lines: lines.__setitem__(4, b"\0" * len(lines[4])), 5, "checksum"),
        (lambda lines: lines.__setitem__(4, b"\n"), 5, "checksum"),
    ],
)
@pytest.mark.asyncio
async def test_damage_in_the_middle_is_reported_and_the_file_stays_as_it_is(
    tmp_path: Path, spoil: Callable[[list[bytes]], object], line: int, said: str
) -> None:
    file, batches = await three_batches(tmp_path / "store")
    lines = b"".join(batches).splitlines(keepends=True)
    spoil(lines)
    file.write_bytes(b"".join(lines))
    store = await JsonlStore.open(file.parent)
    other = await store.acquire("other", NOW_MS)
    with pytest.raises(DamagedLineError, match=said) as caught:
        await store.acquire("main", NOW_MS)
    assert caught.value.line == line
    assert f"line {line} at byte {caught.value.offset}" in str(caught.value)
    with pytest.raises(DamagedLineError):
        await store.read("main")
    assert [info.id for info in await store.live()] == ["other"], "the others go on"
    assert list(await store.append([append_of(other)])) == [Outcome.COMMITTED]
    await store.close()
    assert file.read_bytes() == b"".join(lines)


@pytest.mark.asyncio
async def test_another_sessions_file_is_damage(tmp_path: Path) -> None:
    file, _ = await three_batches(tmp_path / "store")
    file.rename(file.with_name("other.jsonl"))
    store = await JsonlStore.open(file.parent)
    with pytest.raises(DamagedLineError, match="it holds session 'main'"):
        await store.acquire("other", NOW_MS)
    await store.close()


@pytest.mark.asyncio
async def test_bodies_come_back_as_they_were_whatever_they_are(tmp_path: Path) -> None:
    bodies = [
        '{"a": 1.0,  "a":30e1}',
        "[\n1]",
        "no json }",
        '"ü"',
        '"\\ud800\\u0000"',
        "",
        '1,"crc":"00000000"}',
    ]
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    events = tuple(StoredEvent(seq, 'a "b" \\ ü', -seq, body) for seq, body in enumerate(bodies))
    assert list(await store.append([append_of(info, events=events)])) == [Outcome.COMMITTED]
    await store.close()
    store = await JsonlStore.open(tmp_path / "store")
    assert tuple(await store.read("s")) == events
    assert len((tmp_path / "store" / "s.jsonl").read_bytes().splitlines()) == 1 + len(bodies)
    await store.close()


@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        ("fsync", errno.EIO, "store_io"),
        ("write", errno.ENOSPC, "disk_full"),
        ("open", errno.EROFS, "read_only"),
        ("write", errno.EACCES, "read_only"),
    ],
)
@pytest.mark.asyncio
async def test_what_a_fault_leaves_open_is_confirmed_when_it_is_repeated(
    tmp_path: Path, name: str, number: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    one, two = append_of(info, 2, wake_at=1), append_of(replace(info, next_seq=2), 1)
    assert list(await store.append([one])) == [Outcome.COMMITTED]
    file = tmp_path / "store" / "s.jsonl"
    before = file.read_bytes()
    written = jsonl_bytes.os.write

    def refuse(*arguments: Any) -> None:
        if name == "write":
            written(arguments[0], bytes(arguments[1])[:20])  # half a line reaches the disk
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(jsonl_bytes.os, name, refuse)
        assert list(await store.append([two])) == [Outcome.UNKNOWN]
    assert store.last_fault is not None
    assert store.last_fault.code == code
    assert file.read_bytes() == before
    assert len(await store.read("s")) == 2
    assert list(await store.append([two])) == [Outcome.COMMITTED]
    assert store.last_fault is None
    await store.close()
    store = await JsonlStore.open(tmp_path / "store")
    assert tuple(await store.read("s")) == one.events + two.events
    await store.close()


@pytest.mark.asyncio
async def test_a_batch_that_could_neither_be_synced_nor_cut_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]

    def refuse(*_: Any) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(jsonl_bytes.os, "fsync", refuse)
        patched.setattr(jsonl_bytes.os, "ftruncate", refuse)
        assert list(await store.append([append_of(replace(info, next_seq=2), 1)])) == [Outcome.UNKNOWN]
    assert len(await store.read("s")) == 2, "what is not certain is not shown"
    await store.append([Append("s", info.epoch, -1, (), None, let_go=True)])  # its owner gives up
    await store.close()
    puts: list[tuple[int, int]] = []
    put = jsonl_bytes.put

    def noting(path: Path, data: bytes, at: int, keep: int, **others: Any) -> int:
        puts.append((at, keep))
        return put(path, data, at, keep, **others)

    monkeypatch.setattr(jsonl_files, "put", noting)
    store = await JsonlStore.open(tmp_path / "store")
    again = await store.acquire("s", NOW_MS)
    assert again.next_seq == 3
    assert [event.seq for event in await store.read("s")] == [0, 1, 2]
    (at, keep) = puts[0]
    assert at < keep, "a batch of unknown fate is written once more before anything is built on it"
    await store.close()


@pytest.mark.asyncio
async def test_a_file_cut_under_a_running_store_is_never_filled_with_zeros(tmp_path: Path) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    file = tmp_path / "store" / "s.jsonl"
    os.truncate(file, 10)
    assert list(await store.append([append_of(replace(info, next_seq=2))])) == [Outcome.UNKNOWN]
    assert file.stat().st_size <= 10
    assert "another program has cut it" in str(store.last_fault)
    await store.close()


@pytest.mark.asyncio
async def test_a_commit_is_one_sync_a_file_and_a_clean_release_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    infos = [await store.acquire(f"s{n}", NOW_MS) for n in range(20)]
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(jsonl_bytes.os, "fsync", lambda fd: synced.append(fd) or fsync(fd))
    before = store.statistics()
    await asyncio.gather(*(store.append([append_of(info)]) for info in infos))
    after = store.statistics()
    assert (len(synced), after.commits - before.commits, after.appends - before.appends) == (20, 1, 20)
    await asyncio.gather(*(store.append([Append(i.id, i.epoch, 1, (), None, let_go=True)]) for i in infos))
    assert len(synced) == 20
    assert store._files._states == {}
    await store.close()


@pytest.mark.asyncio
async def test_close_leaves_a_write_that_hangs_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    answered = threading.Event()
    monkeypatch.setattr(jsonl_bytes.os, "fsync", lambda _: answered.wait())
    monkeypatch.setattr(group_commit, "CLOSE_TIMEOUT_S", 0.05)
    write = asyncio.ensure_future(store.append([append_of(info)]))
    await asyncio.sleep(0.01)
    await store.close()
    answered.set()
    assert list(await write) == [Outcome.COMMITTED]


@pytest.mark.asyncio
async def test_the_embedded_host_lives_on_it_and_comes_back(tmp_path: Path) -> None:
    runner = ScriptedRunner()
    store = await JsonlStore.open(tmp_path / "store")
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("Main/../session ü")
        assert await session.send("hello") == "re: hello"
        tools = by_agent(session.agent)
        made = await tools["create"].invoke({"prompt": "stretch \ud83d", "after_seconds": 3600})
        assert made.value.get("code") is None
        child = await host.fork(session, "child")
        seen, forked = types_of(session), types_of(child)
    await store.close()
    assert {path.name for path in (tmp_path / "store").iterdir()} >= {
        file_name("Main/../session ü"),
        "child.jsonl",
    }
    store = await JsonlStore.open(tmp_path / "store")
    assert [info.id for info in await store.live()] == ["Main/../session ü"]
    async with ScheduleHost.open(store=store, runner=runner) as host:
        session = await host.session("Main/../session ü", create=False)
        assert types_of(session) == seen
        assert (
            json.loads((await by_agent(session.agent)["list"].invoke({})).content)[0]["prompt"]
            == "stretch \ud83d"
        )
        child = await host.session("child")
        assert types_of(child) == forked
        assert child.header.parent == "Main/../session ü"
    await store.close()


KILLED = """
import asyncio, os, signal, sys
from schedule_sm.stores.errors import SessionUnknownError, StoreError, StoreLinkedError
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.testing.store_contract import NOW_MS, append_of
async def main():
    store = await JsonlStore.open(sys.argv[1])
    info = await store.acquire("s", NOW_MS)
    await store.append([append_of(info, 2, wake_at=1)])
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_crash_drops_the_lock_and_keeps_what_was_committed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)  # noqa: ASYNC221 - nothing else runs
    assert ended.returncode == -9
    with JsonlStore.open_read_only(folder) as reader:
        assert reader.session("s").next_seq == 2
    store = await JsonlStore.open(folder)
    info = await store.acquire("s", NOW_MS)
    assert (info.epoch, info.next_seq, info.wake_at) == (2, 2, 1)
    await store.close()


@pytest.mark.asyncio
async def test_every_file_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await JsonlStore.open(tmp_path / "store")
        await store.acquire("s", NOW_MS)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


@pytest.mark.asyncio
async def test_a_file_replaced_under_a_running_store_is_left_alone_until_its_session_is_opened_again(
    tmp_path: Path,
) -> None:
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info, 2)])) == [Outcome.COMMITTED]
    file = tmp_path / "store" / "s.jsonl"
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    before = file.read_bytes()
    later = append_of(replace(info, next_seq=2), 1)
    assert list(await store.append([later])) == [Outcome.UNKNOWN]
    assert store.last_fault is not None
    assert "replaced" in str(store.last_fault)
    assert file.read_bytes() == before
    await store.append([Append("s", info.epoch, -1, (), None, let_go=True)])
    again = await store.acquire("s", NOW_MS)
    assert again.next_seq == 2
    assert list(await store.append([append_of(again, 1)])) == [Outcome.COMMITTED]
    await store.close()


@pytest.mark.asyncio
async def test_a_session_file_with_a_second_name_is_refused(tmp_path: Path) -> None:
    """A copy made of hard links would change with the store, or be written by a second host."""
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    assert list(await store.append([append_of(info)])) == [Outcome.COMMITTED]
    link = tmp_path / "s.jsonl"
    link.hardlink_to(tmp_path / "store" / "s.jsonl")
    later = append_of(replace(info, next_seq=1))
    assert list(await store.append([later])) == [Outcome.UNKNOWN]
    assert isinstance(store.last_fault, StoreLinkedError)
    link.unlink()
    assert list(await store.append([later])) == [Outcome.COMMITTED]
    await store.close()


@pytest.mark.asyncio
async def test_session_whose_first_acquisition_failed_is_unknown_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    store = await JsonlStore.open(tmp_path / "store")
    with monkeypatch.context() as patched:
        patched.setattr(jsonl_bytes.os, "write", full)
        with pytest.raises(StoreError):
            await store.acquire("s", NOW_MS)
    with pytest.raises(SessionUnknownError):
        await store.read("s")
    await store.close()
