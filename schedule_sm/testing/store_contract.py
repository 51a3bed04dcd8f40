"""``check_store``: the suite that every store has to pass, ours and other people's.

Each check gets fresh stores from a factory and says in its name what must hold. In a project of your own::

    @pytest.mark.asyncio
    async def test_my_store():
        await check_store(lambda: MyStore.open(fresh_place()), reopen=lambda closed: MyStore.open(closed.place))
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from schedule_sm.stores.errors import SessionHeldError, SessionUnknownError, StoreClosedError
from schedule_sm.stores.protocol import (
    Append,
    ByTypeStore,
    NewSession,
    Outcome,
    SessionInfo,
    Store,
    StoredEvent,
)

MakeStore: TypeAlias = Callable[[], Store | Awaitable[Store]]
"""Returns an open store on a fresh place each time it is called."""
Reopen: TypeAlias = Callable[[Any], Store | Awaitable[Store]]
"""Opens again what a closed store kept."""

NOW_MS: Final = 1_893_456_000_000
HARD_TEXTS: Final = (
    "",
    "\0",
    "\ud800",
    "\udfff\ud800",
    "\u2028\u2029",
    "'; DROP TABLE events; --",
    "\U0001f600",
    "é\r\n",
)


class _Suite:
    """The factory of one run, and the stores to be closed after each check."""

    def __init__(self, make_store: MakeStore, reopen: Reopen | None) -> None:
        self._make_store = make_store
        self._reopen = reopen
        self._opened: list[Store] = []

    async def fresh(self) -> Store:
        made = self._make_store()
        store = await made if inspect.isawaitable(made) else made
        self._opened.append(store)
        return store

    async def reopened(self, store: Store) -> Store | None:
        await store.close()
        if self._reopen is None:
            return None
        made = self._reopen(store)
        again = await made if inspect.isawaitable(made) else made
        self._opened.append(again)
        return again

    async def close_all(self) -> None:
        while self._opened:
            await self._opened.pop().close()


def stored_event(seq: int, data: object = None, type: str = "note") -> StoredEvent:  # noqa: A002 - the event's field
    """Return an event for a test, its time a function of its seq."""
    return StoredEvent(seq, type, NOW_MS + seq, json.dumps(data))


def append_of(info: SessionInfo, count: int = 1, **changes: Any) -> Append:
    """Return an append of ``count`` events behind what ``info`` says is stored."""
    events = tuple(stored_event(info.next_seq + n, {"n": info.next_seq + n}) for n in range(count))
    return replace(Append(info.id, info.epoch, info.next_seq, events, None), **changes)


async def _one(store: Store, append: Append) -> Outcome:
    outcomes = await store.append([append])
    assert len(outcomes) == 1, "one outcome for each append"
    return outcomes[0]


async def what_is_committed_is_read_back(suite: _Suite) -> None:
    """Events come back in order and unchanged, by position and by type."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    assert (info.next_seq, info.wake_at, info.seed_length, info.parent, info.created_at) == (
        0,
        None,
        0,
        None,
        NOW_MS,
    )
    events = tuple(stored_event(n, text, "a" if n % 2 else "b") for n, text in enumerate(HARD_TEXTS))
    assert await _one(store, append_of(info, events=events)) is Outcome.COMMITTED
    assert tuple(await store.read("s")) == events
    assert [json.loads(event.body) for event in await store.read("s")] == list(HARD_TEXTS)
    assert tuple(await store.read("s", 2)) == events[3:]
    assert tuple(await store.read("s", -9)) == events
    assert tuple(await store.read("s", types=("a",))) == events[1::2]
    assert tuple(await store.read("s", 2, types=("a",))) == events[3::2]
    assert tuple(await store.read("s", types=("b", "a", "none", "b"))) == events, "in order, each once"
    assert tuple(await store.read("s", types=())) == ()


async def a_log_opened_by_type_is_the_log(suite: _Suite) -> None:
    """What came by type, and what is read when it is touched, is what was committed; for a store that offers it."""
    store = await suite.fresh()
    if not isinstance(store, ByTypeStore):
        return
    info = await store.acquire("s", NOW_MS)
    assert len((await store.open_log("s", ("a",))).events) == 0
    events = tuple(stored_event(n, text, "a" if n % 2 else "b") for n, text in enumerate(HARD_TEXTS))
    assert await _one(store, append_of(info, events=events)) is Outcome.COMMITTED
    opened = await store.open_log("s", ("a", "c"))
    by_type = {type_: list(zip(*found, strict=True)) for type_, found in opened.known.items()}
    assert by_type == {"a": [(event.seq, event.body) for event in events[1::2]], "c": []}
    later = append_of(replace(info, next_seq=len(events)))
    assert await _one(store, later) is Outcome.COMMITTED
    assert tuple(opened.events) == events, "it ends where it ended when it was opened"
    assert opened.events[-1] == events[-1]
    assert tuple((await store.open_log("s", ())).events) == events + later.events
    await _raises(SessionUnknownError, store.open_log("nobody", ("a",)))


async def the_epoch_rises_with_each_acquisition(suite: _Suite) -> None:
    """A session that was let go can be acquired again, one epoch higher; the earlier writer is fenced."""
    store = await suite.fresh()
    first = await store.acquire("s", NOW_MS)
    assert await _one(store, append_of(first)) is Outcome.COMMITTED
    gone = Append("s", first.epoch, 1, (), None, let_go=True)
    assert await _one(store, gone) is Outcome.COMMITTED
    assert await _one(store, gone) is Outcome.COMMITTED, "letting go is safe to repeat"
    late = replace(append_of(first), expected_seq=1, events=(stored_event(1),))
    assert await _one(store, late) is Outcome.FENCED, "who has let go does not write any more"
    second = await store.acquire("s", NOW_MS + 1)
    assert second.epoch > first.epoch
    assert (second.next_seq, second.created_at) == (1, NOW_MS)
    assert await _one(store, late) is Outcome.FENCED
    assert await _one(store, append_of(second)) is Outcome.COMMITTED
    assert len(await store.read("s")) == 2


async def a_second_owner_is_refused(suite: _Suite) -> None:
    """While a session is held nobody else gets it, also not at the same moment."""
    store = await suite.fresh()
    answers = await asyncio.gather(*(store.acquire("s", NOW_MS) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(answer, SessionHeldError) for answer in answers) == 4
    assert sum(isinstance(answer, SessionInfo) for answer in answers) == 1


async def a_repeated_append_answers_committed(suite: _Suite) -> None:
    """Repeating what was committed changes nothing and answers COMMITTED; other events at its place are fenced."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    append = append_of(info, 3, wake_at=7)
    assert await _one(store, append) is Outcome.COMMITTED
    assert await _one(store, append) is Outcome.COMMITTED
    assert len(await store.read("s")) == 3
    other = replace(append, events=tuple(stored_event(n, "other") for n in range(3)))
    assert await _one(store, other) is Outcome.FENCED
    assert await _one(store, replace(append, expected_seq=1)) is Outcome.FENCED
    assert tuple(await store.read("s")) == append.events


async def ownership_is_given_up_whatever_the_outcome(suite: _Suite) -> None:
    """An owner that cannot know what became of its last append leaves all the same; the log stays as it is."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    assert await _one(store, append_of(info, wake_at=7)) is Outcome.COMMITTED
    await store.append([Append("s", info.epoch, -1, (), None, let_go=True)])
    again = await store.acquire("s", NOW_MS)
    assert (again.epoch, again.next_seq, again.wake_at) == (info.epoch + 1, 1, 7)


async def a_gap_is_refused(suite: _Suite) -> None:
    """An append behind a seq that is not stored would leave a hole."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    assert await _one(store, append_of(replace(info, next_seq=1))) is Outcome.FENCED
    assert not await store.read("s")


async def one_refusal_fails_no_other(suite: _Suite) -> None:
    """In one batch each session has its own outcome."""
    store = await suite.fresh()
    infos = [await store.acquire(f"s{n}", NOW_MS) for n in range(3)]
    batch = [append_of(infos[0]), append_of(replace(infos[1], epoch=infos[1].epoch - 1)), append_of(infos[2])]
    batch.append(Append("never acquired", 1, 0, (stored_event(0),), None))
    outcomes = await store.append(batch)
    assert list(outcomes) == [Outcome.COMMITTED, Outcome.FENCED, Outcome.COMMITTED, Outcome.FENCED]
    assert [len(await store.read(f"s{n}")) for n in range(3)] == [1, 0, 1]


async def wake_at_is_written_with_the_events(suite: _Suite) -> None:
    """``live`` lists what is held or has a ``wake_at``, earliest first, and nothing else."""
    store = await suite.fresh()
    for name, wake_at in (("late", 2_000), ("now", 0), ("never", None), ("past", -5)):
        info = await store.acquire(name, NOW_MS)
        append = append_of(info, wake_at=wake_at)
        assert await _one(store, append) is Outcome.COMMITTED
        assert await _one(store, Append(name, info.epoch, 1, (), wake_at, let_go=True)) is Outcome.COMMITTED
    await store.acquire("held", NOW_MS)
    live = await store.live()
    assert [(info.id, info.wake_at) for info in live] == [
        ("past", -5),
        ("now", 0),
        ("late", 2_000),
        ("held", None),
    ]
    assert [info.next_seq for info in live] == [1, 1, 1, 0]


async def a_fork_is_recorded_with_its_first_append(suite: _Suite) -> None:
    """Seed length and parent come with the first events, or not at all; a later header is ignored."""
    store = await suite.fresh()
    info = await store.acquire("child", NOW_MS)
    first = append_of(info, 4, header=NewSession(seed_length=3, parent="s"), wake_at=1)
    assert await _one(store, first) is Outcome.COMMITTED
    more = append_of(replace(info, next_seq=4), header=NewSession(seed_length=1, parent="x"), wake_at=1)
    assert await _one(store, more) is Outcome.COMMITTED
    (child,) = await store.live()
    assert (child.seed_length, child.parent, child.next_seq) == (3, "s", 5)


async def an_unknown_session_is_named(suite: _Suite) -> None:
    """Reading a session that is not there says so."""
    store = await suite.fresh()
    error = await _raises(SessionUnknownError, store.read("nobody"))
    assert "nobody" in str(error)


async def many_sessions_write_at_once(suite: _Suite) -> None:
    """A thousand barriers of a thousand sessions at one moment all succeed, each with its own events."""
    store = await suite.fresh()
    infos = await asyncio.gather(*(store.acquire(f"s{n}", NOW_MS) for n in range(1_000)))
    outcomes = await asyncio.gather(*(_one(store, append_of(info, wake_at=5)) for info in infos))
    assert set(outcomes) == {Outcome.COMMITTED}
    assert len(await store.live()) == 1_000


async def a_cancelled_caller_does_not_harm_the_write(suite: _Suite) -> None:
    """Cancelling who waits leaves the store usable, and the append either whole or absent."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    append = append_of(info, 2)
    caller = asyncio.ensure_future(store.append([append]))
    await asyncio.sleep(0)
    caller.cancel()
    with suppress(asyncio.CancelledError):
        await caller
    assert await _one(store, append) is Outcome.COMMITTED
    assert tuple(await store.read("s")) == append.events


async def a_closed_store_says_so(suite: _Suite) -> None:
    """After ``close``, which may be called twice, every method refuses with one clear error."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    await store.close()
    await store.close()
    await _raises(StoreClosedError, store.acquire("t", NOW_MS))
    await _raises(StoreClosedError, store.read("s"))
    await _raises(StoreClosedError, store.append([append_of(info)]))
    await _raises(StoreClosedError, store.live())


async def reopening_finds_everything(suite: _Suite) -> None:
    """What was committed outlives the store; nobody holds anything, and epochs go on rising."""
    store = await suite.fresh()
    info = await store.acquire("s", NOW_MS)
    append = append_of(info, 3, wake_at=9)
    assert await _one(store, append) is Outcome.COMMITTED
    again = await suite.reopened(store)
    if again is None:
        return
    assert tuple(await again.read("s")) == append.events
    after = await again.acquire("s", NOW_MS + 1)
    assert after.epoch > info.epoch
    assert (after.next_seq, after.wake_at, after.created_at) == (3, 9, NOW_MS)
    assert await _one(again, append_of(replace(info, next_seq=3))) is Outcome.FENCED


async def _raises(kind: type[Exception], call: Awaitable[Any]) -> Exception:
    try:
        await call
    except kind as error:
        return error
    msg = f"{kind.__name__} was not raised"
    raise AssertionError(msg)


STORE_CHECKS: Final = (
    what_is_committed_is_read_back,
    a_log_opened_by_type_is_the_log,
    the_epoch_rises_with_each_acquisition,
    a_second_owner_is_refused,
    a_repeated_append_answers_committed,
    ownership_is_given_up_whatever_the_outcome,
    a_gap_is_refused,
    one_refusal_fails_no_other,
    wake_at_is_written_with_the_events,
    a_fork_is_recorded_with_its_first_append,
    an_unknown_session_is_named,
    many_sessions_write_at_once,
    a_cancelled_caller_does_not_harm_the_write,
    a_closed_store_says_so,
    reopening_finds_everything,
)
"""Every check, for a parametrised test: ``await run_check(check, make_store)``."""

_Check: TypeAlias = Callable[[_Suite], Awaitable[None]]


async def run_check(check: _Check, make_store: MakeStore, *, reopen: Reopen | None = None) -> None:
    """Run one of ``STORE_CHECKS`` and close what it opened.

    Raises:
        AssertionError: where the store departs from the contract.
    """
    suite = _Suite(make_store, reopen)
    try:
        await check(suite)
    finally:
        await suite.close_all()


async def check_store(make_store: MakeStore, *, reopen: Reopen | None = None) -> None:
    """Run the whole suite; it stops at the first check that fails and names it.

    Args:
        make_store: returns an open store on a fresh place (or an awaitable of one).
        reopen: opens again what a closed store kept; without it, what outlives a store is not checked.

    Raises:
        AssertionError: where the store departs from the contract.
    """
    for check in STORE_CHECKS:
        try:
            await run_check(check, make_store, reopen=reopen)
        except AssertionError as error:
            msg = f"{check.__name__}: {error}"
            raise AssertionError(msg) from error
