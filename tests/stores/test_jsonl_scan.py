"""A file checked at once against the same file read line by line: every log and every damage has one verdict."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedule_sm.stores import jsonl_files, jsonl_scan
from schedule_sm.stores.errors import StoreError
from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_lines import event_lines, event_of, meta_line, read_batches
from schedule_sm.stores.jsonl_scan import ScannedLog, scan, scan_file
from schedule_sm.stores.protocol import Append, OpenedLog, Outcome, SessionInfo, StoredEvent
from schedule_sm.testing.store_contract import NOW_MS, append_of
from tests.stores.damaged_logs import CHANGES, COMMON_TYPES, FIRST, damaged, logs, resealed, rewritten

PLACE = "main.jsonl"


@dataclass(frozen=True)
class Verdict:
    """What is known of a file, or what is wrong with it."""

    info: SessionInfo
    start: int
    end: int
    events: tuple[StoredEvent, ...]


def verdict_by_line(data: bytes, session_id: str | None = None) -> Verdict | str | None:
    events: list[StoredEvent] = []
    batch = None
    try:
        for batch in read_batches(BytesIO(data), PLACE, session_id):
            events += batch.events
    except StoreError as error:
        return str(error)
    return None if batch is None else Verdict(batch.info, batch.start, batch.end, tuple(events))


def verdict_at_once(data: bytes, session_id: str | None = None) -> Verdict | str | None:
    try:
        log = scan(data, PLACE, session_id)
    except StoreError as error:
        return str(error)
    return None if log is None else Verdict(log.info, log.last_start, log.last_end, tuple(log))


pieces = st.sampled_from([1, 200, 1_000, jsonl_scan._PIECE])


@given(logs(), pieces)
def test_a_whole_file_is_read_as_line_by_line(lines: list[bytes], piece: int) -> None:
    data = b"".join(lines)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonl_scan, "_PIECE", piece)
        assert verdict_at_once(data) == verdict_by_line(data)


@given(damaged(), pieces, st.sampled_from([None, "main", "else"]))
@example(event_lines([StoredEvent(0, "a", 1, "{}")], None), 1, None)
@example(b"", 1, "main")
def test_a_damaged_file_has_the_same_verdict_word_for_word(
    data: bytes, piece: int, session_id: str | None
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonl_scan, "_PIECE", piece)
        assert verdict_at_once(data, session_id) == verdict_by_line(data, session_id)


def small_log() -> list[bytes]:
    """A session and a fork's first batch, an acquisition, two batches of one event and one of twelve."""
    fork = replace(FIRST, seed_length=2, parent="p", next_seq=2)
    events = [StoredEvent(seq, "a", 2, "{}") for seq in range(16)]
    parts = [
        meta_line(FIRST),
        meta_line(fork),
        event_lines(events[:2], 3),
        meta_line(replace(fork, epoch=2, wake_at=3)),
        event_lines(events[2:3], 4),
        event_lines(events[3:4], 5),
        event_lines(events[4:], None),
    ]
    return b"".join(parts).splitlines(keepends=True)


@pytest.mark.parametrize("piece", [1, 300, 1 << 16])
def test_every_change_to_every_line_has_the_same_verdict(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_scan, "_PIECE", piece)
    lines = small_log()
    for at, line in enumerate(lines):
        for number, change in enumerate(CHANGES):
            data = b"".join([*lines[:at], resealed(line, change), *lines[at + 1 :]])
            assert verdict_at_once(data) == verdict_by_line(data), (at, number)


@pytest.mark.parametrize("piece", [1, 300, 1 << 16])
def test_every_flipped_bit_and_cut_has_the_same_verdict(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_scan, "_PIECE", piece)
    whole = b"".join(small_log()[:6])
    for position in range(len(whole)):
        assert verdict_at_once(whole[:position]) == verdict_by_line(whole[:position]), position
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        assert verdict_at_once(bytes(data)) == verdict_by_line(bytes(data)), position


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"seq":11,', b'{"seq":1,'),
        (b'{"seq":15,', b'{"seq":1,'),
        (b'{"seq":10,', b'{"seq":,'),
        (b'{"seq":10,', b'{"seq":10,11,'),
    ],
)
def test_a_number_that_only_begins_like_the_next_is_not_the_next(old: bytes, new: bytes) -> None:
    lines = small_log()
    (at,) = (at for at, line in enumerate(lines) if old in line)
    lines[at] = resealed(lines[at], rewritten(old, new))
    for data in (b"".join(lines), b"".join(lines[: at + 1])):
        assert isinstance(verdict_by_line(data), str)
        assert verdict_at_once(data) == verdict_by_line(data)


def test_a_digit_moved_from_one_checksum_to_the_next_is_damage() -> None:
    data = b"".join(small_log())
    (one, two), *_ = re.findall(rb'"data".*"crc":"(.{8})"\}\n.*"data".*"crc":"(.{8})"', data)
    data = data.replace(one, one[:7]).replace(two, one[7:] + two)
    assert "checksum" in str(verdict_by_line(data))
    assert verdict_at_once(data) == verdict_by_line(data)


@given(logs(plain=True), pieces, st.integers(0, 400))
def test_common_lines_are_never_read_one_by_one(lines: list[bytes], piece: int, cut: int) -> None:
    data = b"".join(lines)
    data = data[: len(data) - cut]
    expected = verdict_by_line(data)

    def refuse(*_: Any) -> None:
        raise AssertionError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jsonl_scan, "_PIECE", piece)
        patched.setattr(jsonl_scan, "_read_by_line", refuse)
        assert verdict_at_once(data) == expected


def log_of(count: int) -> ScannedLog:
    events = [StoredEvent(seq, COMMON_TYPES[seq % 2], seq, json.dumps({"n": seq})) for seq in range(count)]
    log = scan(meta_line(FIRST) + event_lines(events, 3), PLACE)
    assert log is not None
    assert list(log) == events
    return log


@pytest.mark.parametrize("count", [1, 999, 1_000, 1_001, 2_000, 2_001, 10_001])
def test_numbers_are_followed_past_each_thousand(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_scan, "_read_by_line", None)
    assert len(log_of(count)) == count


def test_a_log_is_a_sequence() -> None:
    log = log_of(2_500)
    assert (log[0].seq, log[-1].seq, log[2_499].seq) == (0, 2_499, 2_499)
    assert [event.seq for event in log[-3:]] == [2_497, 2_498, 2_499]
    assert [event.seq for event in log[2:9:3]] == [2, 5, 8]
    assert log[5:5] == []
    with pytest.raises(IndexError):
        log[2_500]


@given(logs())
def test_events_and_bodies_by_type(lines: list[bytes]) -> None:
    log = scan(b"".join(lines), PLACE)
    assert log is not None
    wanted = {*COMMON_TYPES, 'quo"te', "never"}
    expected = [event for event in log if event.type in wanted]
    assert log.of_types(wanted) == expected
    found = {type_: list(zip(*columns, strict=True)) for type_, columns in log.bodies(wanted).items()}
    assert found == {
        type_: [(event.seq, event.body) for event in expected if event.type == type_] for type_ in wanted
    }


@pytest.mark.asyncio
async def test_only_what_is_asked_for_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def counted(text: bytes) -> StoredEvent:
        event = event_of(text)
        decoded.append(event.seq)
        return event

    monkeypatch.setattr(jsonl_scan, "event_of", counted)
    store = await JsonlStore.open(tmp_path)
    info = await store.acquire("s", NOW_MS)
    events = tuple(StoredEvent(seq, "even" if seq % 2 == 0 else "odd", 0, "1") for seq in range(50))
    assert await store.append([Append("s", info.epoch, 0, events, None)]) == [Outcome.COMMITTED]
    for after, types, expected in (
        (46, None, [47, 48, 49]),
        (46, ("even",), [48]),
        (-9, ("odd",), [*range(1, 50, 2)]),
    ):
        decoded.clear()
        found = await store.read("s", after, types=types)
        assert [event.seq for event in found] == decoded == expected
    await store.close()


@pytest.mark.asyncio
async def test_what_an_acquisition_read_answers_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[Path] = []

    def noting(path: Path, *arguments: Any) -> ScannedLog | None:
        scanned.append(path)
        return scan_file(path, *arguments)

    monkeypatch.setattr(jsonl_files, "scan_file", noting)
    store = await JsonlStore.open(tmp_path / "store")
    info = await store.acquire("s", NOW_MS)
    append = append_of(info, 3)
    assert list(await store.append([append, replace(append, events=(), expected_seq=3, let_go=True)])) == [
        Outcome.COMMITTED,
        Outcome.COMMITTED,
    ]
    types = {event.type for event in append.events}
    for ask in (store.read("s"), store.read("s", types=types), store.open_log("s", types)):
        info = await store.acquire("s", NOW_MS)
        scanned.clear()
        answer = await ask
        assert tuple(answer.events if isinstance(answer, OpenedLog) else answer) == append.events
        assert scanned == []
        await store.read("s")
        assert len(scanned) == 1, "kept for one question only"
        assert list(await store.append([replace(append_of(info), events=(), let_go=True)])) == [
            Outcome.COMMITTED
        ]
    await store.close()
