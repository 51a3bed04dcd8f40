"""The index beside a session file: it never changes what is read, and what it covers is not looked at again."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from schedule_sm.stores import jsonl_files, jsonl_index, jsonl_scan
from schedule_sm.stores.errors import StoreError
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_index import WORTH_BYTES, index_path
from schedule_sm.stores.jsonl_lines import DamagedLineError, event_lines, meta_line, read_batches
from schedule_sm.stores.jsonl_scan import scan_file
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo, StoredEvent
from schedule_sm.testing.store_contract import NOW_MS
from tests.stores.damaged_logs import FIRST, damaged, logs
from tests.stores.test_jsonl_scan import Verdict, small_log, verdict_by_line


def verdict_of_file(path: Path) -> Verdict | str | None:
    try:
        log = scan_file(path)
    except DamagedLineError as error:
        return str(error).replace(str(path), "main.jsonl")
    return None if log is None else Verdict(log.info, log.last_start, log.last_end, tuple(log))


@contextmanager
def indexed(data: bytes) -> Iterator[Path]:
    """A file that holds ``data`` and has an index, however short it is."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonl_index, "WORTH_BYTES", 0)
        path = Path(folder) / "main.jsonl"
        path.write_bytes(data)
        log = scan_file(path)
        assert log is not None
        assert log.keep_index(path) == log.last_end
        yield path


def batch_ends(data: bytes) -> list[int]:
    return [batch.end for batch in read_batches(data.splitlines(keepends=True), "main.jsonl")]


@given(st.data(), st.booleans())
def test_what_is_read_with_an_index_is_what_is_read_without(draws: st.DataObject, plain: bool) -> None:
    data = b"".join(draws.draw(logs(plain=plain)))
    covered = draws.draw(st.sampled_from(batch_ends(data)))
    with indexed(data[:covered]) as path:
        path.write_bytes(data)
        log = scan_file(path)
        assert log is not None
        assert log.indexed_size == covered or not plain, (
            "an uncommon line has the file read from its beginning"
        )
        assert verdict_of_file(path) == verdict_by_line(data)
        types = {event.type for event in log}
        seqs = {event.seq: event.body for event in log}
        found = [*log.bodies(types).values()]
        assert {seq: body for column in found for seq, body in zip(*column, strict=True)} == seqs


@given(logs(), damaged())
def test_another_file_in_its_place_has_its_own_verdict(lines: list[bytes], other: bytes) -> None:
    with indexed(b"".join(lines)) as path:
        path.write_bytes(other)
        assert verdict_of_file(path) == verdict_by_line(other)


def test_every_flipped_bit_and_cut_of_an_indexed_file_has_the_same_verdict() -> None:
    whole = b"".join(small_log()[:6])
    with indexed(b"".join(small_log()[:4])) as path:
        for position in range(len(whole)):
            path.write_bytes(whole[:position])
            assert verdict_of_file(path) == verdict_by_line(whole[:position]), position
            data = bytearray(whole)
            data[position] ^= 1 << position % 8
            path.write_bytes(data)
            assert verdict_of_file(path) == verdict_by_line(bytes(data)), position


def test_every_flipped_bit_and_cut_of_the_index_has_the_same_verdict() -> None:
    data = b"".join(small_log())
    expected = verdict_by_line(data)
    with indexed(data) as path:
        index = index_path(path).read_bytes()
        for position in range(len(index)):
            index_path(path).write_bytes(index[:position])
            assert verdict_of_file(path) == expected, position
            changed = bytearray(index)
            changed[position] ^= 1 << position % 8
            index_path(path).write_bytes(changed)
            assert verdict_of_file(path) == expected, position


@pytest.mark.parametrize(
    ("said", "other"),
    [("version", 2), ("format", "else"), ("order", "big" if sys.byteorder == "little" else "little")],
)
def test_an_index_of_another_kind_is_not_read(
    said: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(small_log())
    with monkeypatch.context() as patched:
        patched.setitem(jsonl_index._FORMAT, said, other)
        with indexed(data) as path:
            written = index_path(path).read_bytes()
    with indexed(data) as path:
        index_path(path).write_bytes(written)
        log = scan_file(path)
        assert log is not None
        assert log.indexed_size == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("crc"),
        lambda said: said.pop("types"),
        lambda said: said["info"].pop("id"),
        lambda said: said["info"].update(next_seq=3),
        lambda said: said["info"].update(next_seq=17),
        lambda said: said["info"].update(next_seq="16"),
        lambda said: said.update(end="x"),
        lambda said: said.update(end=1 << 40),
        lambda said: said.clear(),
    ],
)
def test_an_index_by_somebody_else_is_not_trusted(change: Callable[[dict[str, Any]], object]) -> None:
    data = b"".join(small_log())
    with indexed(data) as path:
        head, _, rest = index_path(path).read_bytes().partition(b"\n")
        said = json.loads(head)
        change(said)
        head, columns = json.dumps(said).encode(), rest[:-4]
        crc = zlib.crc32(columns, zlib.crc32(head)).to_bytes(4, "big")
        index_path(path).write_bytes(b"%b\n%b%b" % (head, columns, crc))
        assert verdict_of_file(path) == verdict_by_line(data)


# -- in a store ---------------------------------------------------------------------------------------------------


class Bench:
    """A store with one session, and what of its file was read line by line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "s.jsonl"
        self.scanned = 0

    async def acquire(self) -> SessionInfo:
        self.store = await JsonlStore.open(self.folder)
        self.info = await self.store.acquire("s", NOW_MS)
        return self.info

    async def append(self, count: int, *, let_go: bool = False) -> None:
        first = self.info.next_seq
        events = tuple(
            StoredEvent(first + n, "a" if n % 3 else "b", NOW_MS, f'{{"n":"{n:0200}"}}') for n in range(count)
        )
        append = Append("s", self.info.epoch, first, events, None, let_go=let_go)
        assert await self.store.append([append]) == [Outcome.COMMITTED]
        self.info = replace(self.info, next_seq=first + count)

    async def close(self) -> None:
        await self.append(0, let_go=True)
        await self.store.close()

    def check(self, count: int) -> None:
        log = scan_file(self.path, "s")
        assert log is not None
        assert verdict_of_file(self.path) == verdict_by_line(self.path.read_bytes())
        assert len(log) == count


@pytest_asyncio.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path / "store")
    take = jsonl_scan._Scan._take

    def counted(scan: jsonl_scan._Scan, lines: bytes) -> None:
        bench.scanned += len(lines)
        take(scan, lines)

    monkeypatch.setattr(jsonl_scan._Scan, "_take", counted)
    return bench


MANY = WORTH_BYTES // 200


@pytest.mark.asyncio
async def test_a_long_session_that_was_let_go_is_not_read_again(bench: Bench) -> None:
    await bench.acquire()
    await bench.append(MANY)
    await bench.close()
    index = index_path(bench.path)
    if sys.platform != "win32":
        assert stat.S_IMODE(index.stat().st_mode) == 0o600
    bench.scanned = 0
    assert (await bench.acquire()).next_seq == MANY
    assert bench.scanned == 0
    await bench.append(2)
    await bench.close()
    bench.scanned = 0
    assert (await bench.acquire()).next_seq == MANY + 2
    assert 0 < bench.scanned < 2_000
    found = await bench.store.read("s", types=("b",))
    assert [event.seq for event in found] == [*range(0, MANY, 3), MANY]
    await bench.close()
    bench.check(MANY + 2)


@pytest.mark.asyncio
async def test_a_host_that_was_killed_leaves_it_to_the_next(bench: Bench) -> None:
    await bench.acquire()
    await bench.append(MANY)
    await bench.store.close()
    assert not index_path(bench.path).exists()
    await bench.acquire()
    assert index_path(bench.path).exists()
    await bench.store.close()
    bench.scanned = 0
    assert (await bench.acquire()).next_seq == MANY
    assert bench.scanned < 2_000
    await bench.close()
    bench.check(MANY)


@pytest.mark.asyncio
async def test_an_index_is_written_anew_only_after_much_growth(bench: Bench) -> None:
    await bench.acquire()
    await bench.append(4 * MANY)
    await bench.close()
    index = index_path(bench.path)
    written = index.read_bytes()
    for _ in range(2):
        await bench.acquire()
        await bench.append(MANY // 8)
        await bench.close()
        assert index.read_bytes() == written
    await bench.acquire()
    await bench.append(MANY)
    await bench.close()
    assert index.read_bytes() != written
    bench.check(5 * MANY + 2 * (MANY // 8))


@pytest.mark.asyncio
async def test_a_short_session_has_none(bench: Bench) -> None:
    for _ in range(3):
        await bench.acquire()
        await bench.append(3)
        await bench.close()
    assert {path.name for path in bench.folder.iterdir()} == {"s.jsonl", ".lock", "schedule-sm.json"}


@pytest.mark.asyncio
async def test_an_index_that_cannot_be_written_or_read_harms_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.acquire()
    index = index_path(bench.path)
    index.mkdir()
    (index.with_name(f".{index.name}")).write_text("of a process that was killed")
    await bench.append(MANY)
    with caplog.at_level(logging.INFO, jsonl_index.__name__):
        await bench.close()
        assert (await bench.acquire()).next_seq == MANY
    assert "was not written" in caplog.text
    assert "is not used" in caplog.text
    await bench.close()
    assert {path.name for path in bench.folder.iterdir()} == {
        "s.jsonl",
        "s.index",
        ".lock",
        "schedule-sm.json",
    }
    bench.check(MANY)


@pytest.mark.asyncio
async def test_many_sessions_that_are_let_go_at_once_are_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_files, "INDEXED_AT_ONCE", 3 * WORTH_BYTES)
    store = await JsonlStore.open(tmp_path / "store")
    event = StoredEvent(0, "a", NOW_MS, f'"{"x" * WORTH_BYTES}"')
    infos = [await store.acquire(f"s-{n}", NOW_MS) for n in range(5)]
    appends = [Append(info.id, info.epoch, 0, (event,), None, let_go=True) for info in infos]
    assert set(await store.append(appends)) == {Outcome.COMMITTED}
    await store.live()  # behind the indexes, in the store's thread
    assert len([*store.path.glob("*.index")]) == 2
    assert [(await store.acquire(info.id, NOW_MS)).next_seq for info in infos] == [1] * 5
    assert len([*store.path.glob("*.index")]) == 5, "whoever opens them makes up for it"
    await store.close()


@pytest.mark.asyncio
async def test_nobody_waits_for_the_index_of_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, is_indexing = threading.Event(), threading.Event()

    def waiting(*_: object) -> None:
        is_indexing.set()
        assert may_go_on.wait(10)

    monkeypatch.setattr(jsonl_files, "index_file", waiting)
    store = await JsonlStore.open(tmp_path / "store")
    long, other = [await store.acquire(name, NOW_MS) for name in ("long", "other")]
    event = StoredEvent(0, "a", NOW_MS, f'"{"x" * WORTH_BYTES}"')
    both = [
        Append(info.id, info.epoch, 0, (event,), None, let_go=is_last)
        for info, is_last in ((long, True), (other, False))
    ]
    async with asyncio.timeout(10):
        assert set(await store.append(both)) == {Outcome.COMMITTED}
        await asyncio.to_thread(is_indexing.wait, 10)
    may_go_on.set()
    await store.close()


@pytest.mark.asyncio
async def test_lines_that_are_read_one_by_one_are_left_to_whoever_opens_the_session(bench: Bench) -> None:
    await bench.acquire()
    event = StoredEvent(0, "a", NOW_MS, '"ü"')
    assert await bench.store.append([Append("s", bench.info.epoch, 0, (event,), None)]) == [Outcome.COMMITTED]
    bench.info = replace(bench.info, next_seq=1)
    await bench.append(MANY)
    await bench.close()
    assert not index_path(bench.path).exists()
    await bench.acquire()
    assert index_path(bench.path).exists()
    await bench.close()
    bench.scanned = 0
    assert (await bench.acquire()).next_seq == MANY + 1
    assert bench.scanned < 2_000
    await bench.close()
    bench.check(MANY + 1)


@pytest.mark.asyncio
async def test_the_last_bytes_of_a_disk_are_left_to_the_sessions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_index, "_ROOM", 1 << 62)
    await bench.acquire()
    await bench.append(MANY)
    await bench.close()
    await bench.acquire()
    await bench.close()
    assert not index_path(bench.path).exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes and devices are POSIX")
@pytest.mark.parametrize("kind", ["fifo", "device", "huge"])
def test_what_can_be_no_index_is_not_waited_for(kind: str) -> None:
    data = b"".join(small_log())
    with indexed(data) as path:
        index = index_path(path)
        index.unlink()
        if kind == "fifo":
            os.mkfifo(index)
        elif kind == "device":
            index.symlink_to("/dev/zero")
        else:
            with index.open("wb") as file:
                file.truncate(1 << 40)
        assert verdict_of_file(path) == verdict_by_line(data)


@pytest.mark.asyncio
async def test_damage_behind_and_under_an_index_is_told(bench: Bench) -> None:
    await bench.acquire()
    await bench.append(MANY)
    await bench.close()
    sound = bench.path.read_bytes()
    for position in (len(sound) // 2, len(sound) - 5):
        damaged_file = bytearray(sound)
        damaged_file[position] ^= 1
        bench.path.write_bytes(damaged_file)
        with pytest.raises(DamagedLineError):
            await bench.acquire()
        await bench.store.close()
        assert bench.path.read_bytes() == damaged_file
    bench.path.write_bytes(sound)
    assert (await bench.acquire()).next_seq == MANY
    await bench.close()


@pytest.mark.asyncio
async def test_a_session_of_the_same_name_in_another_file_is_its_own(bench: Bench) -> None:
    await bench.acquire()
    await bench.append(MANY)
    await bench.close()
    bench.path.write_bytes(
        meta_line(replace(FIRST, id="s")) + event_lines([StoredEvent(0, "a", 1, "{}")], None)
    )
    assert (await bench.acquire()).next_seq == 1
    await bench.close()
    bench.check(1)


@pytest.mark.parametrize(
    "error", [MemoryError(), StoreError("s", "it is gone"), RuntimeError("a fault of ours")]
)
@pytest.mark.asyncio
async def test_whatever_goes_wrong_with_an_index_harms_no_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def failing(*_: object) -> None:
        raise error

    await bench.acquire()
    await bench.append(MANY)
    with monkeypatch.context() as patched, caplog.at_level(logging.INFO, jsonl_files.__name__):
        patched.setattr(jsonl_files, "index_file", failing)
        await bench.close()
    assert repr(error) in caplog.text
    with monkeypatch.context() as patched:
        patched.setattr(jsonl_index, "_put", failing if isinstance(error, MemoryError) else lambda *_: None)
        assert (await bench.acquire()).next_seq == MANY
    await bench.close()
    bench.check(MANY)
