"""Flushes are bounded, joined and honest; a write whose outcome is unknown is repeated as it was."""

from __future__ import annotations

import asyncio

import pytest

from schedule_sm.embedded.durability import SessionWriter
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.stores.protocol import Append, NewSession, Outcome
from tests.embedded.scripted import ScriptedStore


async def writer_on(store: ScriptedStore, *, events: int = 1) -> tuple[SessionWriter, EncodedLog, list[bool]]:
    info = await store.acquire("s", 0)
    log = EncodedLog()
    for _ in range(events):
        log.add("note", 1, "{}")
    header = NewSession()
    writer = SessionWriter(store, "s", log, epoch=info.epoch, durable=0, header=header, wake_at=lambda: None)
    news: list[bool] = []
    writer.on_committed = news.append
    return writer, log, news


@pytest.mark.asyncio
async def test_clean_flush_touches_no_disk() -> None:
    store = ScriptedStore()
    writer, log, _ = await writer_on(store)
    assert await writer.flush() is True
    assert await writer.flush() is True
    assert len(store.seen) == 1
    log.add("note", 1, "{}")
    assert await writer.flush() is True
    assert [append.expected_seq for append in store.seen] == [0, 1]


@pytest.mark.asyncio
async def test_flush_during_another_waits_for_what_was_appended_meanwhile() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(gate)
    writer, log, _ = await writer_on(store)
    first = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    log.add("note", 1, "{}")
    second = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0)
    gate.set_result(None)
    assert await first is True
    assert await second is True
    assert writer.durable == 2
    assert [len(append.events) for append in store.seen] == [1, 1]


@pytest.mark.asyncio
async def test_flush_that_hangs_answers_no_within_its_bound_and_the_news_follows(travel) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(gate)
    writer, _, news = await writer_on(store)
    flush = asyncio.ensure_future(writer.flush())
    await travel(9.9)
    assert not flush.done()
    await travel(0.2)
    assert flush.result() is False
    gate.set_result(None)
    await travel.settle()
    assert news == [True]
    assert await writer.flush() is True


@pytest.mark.parametrize("fault", [Outcome.UNKNOWN, "lost", "raise"])
@pytest.mark.asyncio
async def test_failed_write_is_repeated_as_it_was_until_it_is_known(travel, fault: object) -> None:
    store = ScriptedStore(fault, fault, fault)
    writer, log, news = await writer_on(store, events=2)
    assert await writer.flush() is False
    log.add("note", 1, "{}")
    await travel(5)
    assert news == [True, False]
    assert [(append.expected_seq, len(append.events)) for append in store.seen] == [(0, 2)] * 4 + [(2, 1)]
    assert [event.seq for event in await store.read("s")] == [0, 1, 2]


@pytest.mark.asyncio
async def test_back_off_doubles_with_jitter_up_to_thirty_seconds(travel) -> None:
    store = ScriptedStore()
    store.always = Outcome.UNKNOWN
    writer, _, _ = await writer_on(store)
    assert await writer.flush() is False
    waits = [await travel.to_next_timer() for _ in range(14)]
    for attempt, wait_s in enumerate(waits):
        longest_s = min(0.1 * 2**attempt, 30.0)
        assert longest_s / 2 <= wait_s <= longest_s + 1e-6
    await writer.close()


@pytest.mark.asyncio
async def test_flush_during_the_back_off_tries_at_once(travel) -> None:
    store = ScriptedStore(*[Outcome.UNKNOWN] * 10)
    writer, _, _ = await writer_on(store)
    for _ in range(10):
        assert await writer.flush() is False
    assert len(store.seen) == 10
    assert await writer.flush() is True


@pytest.mark.asyncio
async def test_cancelled_caller_does_not_lose_the_write() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(gate)
    writer, _, _ = await writer_on(store)
    flush = asyncio.ensure_future(writer.flush())
    other = asyncio.ensure_future(writer.flush())
    for _ in range(3):
        await asyncio.sleep(0)
    flush.cancel()
    gate.set_result(None)
    assert await other is True
    assert flush.cancelled()
    assert writer.durable == 1


@pytest.mark.asyncio
async def test_fenced_writer_answers_no_and_says_so_once() -> None:
    store = ScriptedStore(Outcome.FENCED)
    writer, log, _ = await writer_on(store)
    fences: list[None] = []
    writer.on_fenced = lambda: fences.append(None)
    assert await writer.flush() is False
    assert await writer.flush() is False
    log.add("note", 1, "{}")
    assert await writer.flush() is False
    assert len(fences) == 1
    assert len(store.seen) == 1
    assert await writer.close() is False


@pytest.mark.asyncio
async def test_close_writes_the_rest_and_lets_go() -> None:
    store = ScriptedStore()
    writer, _, _ = await writer_on(store)
    assert await writer.close() is True
    assert (await store.acquire("s", 0)).next_seq == 1


@pytest.mark.asyncio
async def test_close_waits_only_shortly_for_what_hangs_already(travel) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(gate)
    writer, _, _ = await writer_on(store)
    flush = asyncio.ensure_future(writer.flush())
    await travel(11)
    assert flush.result() is False
    closing = asyncio.ensure_future(writer.close())
    await travel(1.1)
    assert closing.result() is False


@pytest.mark.asyncio
async def test_store_closed_under_a_writer_ends_it() -> None:
    store = ScriptedStore()
    writer, _, _ = await writer_on(store)
    await store.close()
    assert await writer.flush() is False
    assert writer.is_over


@pytest.mark.asyncio
async def test_letting_go_is_bounded(travel) -> None:
    store = ScriptedStore()
    writer, _, _ = await writer_on(store)
    assert await writer.flush() is True
    store.script.append(asyncio.get_running_loop().create_future())
    closing = asyncio.ensure_future(writer.close())
    await travel(10.1)
    assert closing.result() is True


def test_append_is_a_value() -> None:
    assert Append("s", 1, 0, (), None) == Append("s", 1, 0, (), None)


@pytest.mark.asyncio
async def test_a_write_that_the_store_itself_cancels_is_repeated(travel) -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store = ScriptedStore(gate)
    writer, _, news = await writer_on(store)
    flushing = asyncio.ensure_future(writer.flush())
    await travel.settle()
    gate.cancel()
    assert await flushing is False
    await travel(1)
    assert news == [True], "nobody asked again"
    assert writer.durable == 1
