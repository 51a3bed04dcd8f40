"""A stored session made live: acquired, read whole, checked, and given back to the store if that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.embedded.sessions import EmbeddedSession, EmbeddedSessions
from schedule_sm.stores.errors import StoreIOError
from schedule_sm.stores.protocol import Append, NewSession, SessionInfo, Store, StoredEvent


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
        stored: Sequence[StoredEvent] = await store.read(info.id) if info.next_seq else ()
        _check_complete(info, stored)
        before_use()
    except BaseException:
        await give_back(store, info)
        raise
    return EmbeddedSession(
        sessions,
        info.id,
        EncodedLog(stored),
        header=NewSession(info.seed_length, info.parent),
        epoch=info.epoch,
        durable=info.next_seq,
    )


async def give_back(store: Store, info: SessionInfo) -> None:
    """Let go of an acquired session, as it was."""
    await store.append([Append(info.id, info.epoch, info.next_seq, (), info.wake_at, let_go=True)])


def check_session_id(session_id: object) -> None:
    """Raise ValueError for an id that no store can bind as text."""
    if not isinstance(session_id, str) or not session_id:
        msg = f"a session id must be non-empty text, not {session_id!r}"
        raise ValueError(msg)
    session_id.encode()


def _check_complete(info: SessionInfo, stored: Sequence[StoredEvent]) -> None:
    if [event.seq for event in stored] != list(range(info.next_seq)):
        place = f"session {info.id!r}"
        raise StoreIOError(place, f"it should hold the events 0 to {info.next_seq - 1} and does not")
