"""A store opened, and a stored session made live: read whole, checked, and given back if that fails."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from schedule_sm.core.fields import END_SEED, SCHEDULE_CHANGE
from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.inbox import OWN_TYPES
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.stores.errors import StoreIOError
from schedule_sm.stores.protocol import Append, ByTypeStore, NewSession, SessionInfo, Store
from schedule_sm.stores.sqlite import SqliteStore

READ_AT_ONCE: Final = OWN_TYPES | {SCHEDULE_CHANGE, END_SEED}
"""The types of event that a session needs to come to life; the others wait until somebody asks for them."""


@asynccontextmanager
async def opened_store(path: str | os.PathLike[str] | None, store: Store | None) -> AsyncIterator[Store]:
    """Yield the SQLite store at ``path``, closed at the end, or ``store``, which stays the caller's to close.

    Raises:
        StoreError: its class says what is wrong with the file or its place.
        ValueError: unless exactly one of the two is given.
    """
    if (path is None) == (store is None):
        msg = "give either the path of an SQLite file or a store"
        raise ValueError(msg)
    if store is not None:
        yield store
        return
    assert path is not None
    opened = await SqliteStore.open(path)
    try:
        yield opened
    finally:
        await opened.close()


async def load_session(
    sessions: EmbeddedSessions, info: SessionInfo, *, before_use: Callable[[], None] = lambda: None
) -> EmbeddedSession:
    """Return the session that ``info`` says was acquired, not yet among the live ones.

    Args:
        sessions: the service that it will belong to.
        info: what the store answered.
        before_use: called once everything is read; what it raises gives the session back.

    Raises:
        StoreError: if the store cannot be read, or holds less than it says.
    """
    store = sessions.store
    try:
        log = await _read_log(store, info) if info.next_seq else EncodedLog()
        before_use()
        return EmbeddedSession(
            sessions,
            info.id,
            log,
            header=NewSession(info.seed_length, info.parent),
            epoch=info.epoch,
            durable=info.next_seq,
            created_at=info.created_at,
        )
    except BaseException:
        await give_back(store, info)
        raise


async def give_back(store: Store, info: SessionInfo) -> None:
    """Let go of an acquired session, as it was."""
    await store.append([Append(info.id, info.epoch, info.next_seq, (), info.wake_at, let_go=True)])


def check_session_id(session_id: object) -> None:
    """Raise ValueError for an id that no store can bind as text."""
    if not isinstance(session_id, str) or not session_id:
        msg = f"a session id must be non-empty text, not {session_id!r}"
        raise ValueError(msg)
    session_id.encode()


async def _read_log(store: Store, info: SessionInfo) -> EncodedLog:
    if isinstance(store, ByTypeStore):
        opened = await store.open_log(info.id, READ_AT_ONCE)
        is_complete = len(opened.events) == info.next_seq
        log = EncodedLog(opened)
    else:
        stored = await store.read(info.id)
        is_complete = [event.seq for event in stored] == list(range(info.next_seq))
        log = EncodedLog(stored)
    if not is_complete:
        place = f"session {info.id!r}"
        raise StoreIOError(place, f"it should hold the events 0 to {info.next_seq - 1} and does not")
    return log
