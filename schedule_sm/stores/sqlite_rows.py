"""What one append does to the tables, inside a transaction that its caller opened.

Every statement of the writer stands here; the fence (epoch, expected seq) is decided here and nowhere else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from schedule_sm.stores.errors import SessionUnknownError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo, StoredEvent
from schedule_sm.stores.similar_ids import COMPARED_EACH_WAY, most_alike

_COLUMNS: Final = "id, seed_length, parent, epoch, next_seq, wake_at, created_at"
_EVENTS: Final = "SELECT seq, type, time, body FROM events WHERE session = ?"


def acquire(connection: sqlite3.Connection, session_id: str, now_ms: int) -> SessionInfo:
    """Create the session if needed, raise its epoch and return it."""
    connection.execute(
        "INSERT INTO sessions (id, seed_length, epoch, next_seq, created_at) VALUES (?, 0, 0, 0, ?)"
        " ON CONFLICT (id) DO NOTHING",
        (session_id, now_ms),
    )
    connection.execute("UPDATE sessions SET epoch = epoch + 1 WHERE id = ?", (session_id,))
    info = session_info(connection, session_id)
    assert info is not None
    return info


def session_info(connection: sqlite3.Connection, session_id: str) -> SessionInfo | None:
    """Return one session's row."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else SessionInfo(*row)


def live_sessions(connection: sqlite3.Connection, held: Collection[str]) -> list[SessionInfo]:
    """Return the sessions with a ``wake_at``, earliest first, then those that are only ``held``."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE wake_at IS NOT NULL ORDER BY wake_at, id"
    )
    waking = [SessionInfo(*row) for row in rows]
    listed = {info.id for info in waking}
    others = [session_info(connection, session_id) for session_id in sorted(set(held) - listed)]
    return waking + [info for info in others if info is not None]


def read_events(
    connection: sqlite3.Connection, session_id: str, after_seq: int, types: Collection[str] | None
) -> sqlite3.Cursor:
    """Return a cursor over the session's events behind ``after_seq``, of ``types`` only if given."""
    if types is None:
        return connection.execute(
            f"{_EVENTS} AND seq > ? ORDER BY seq",
            (session_id, after_seq),
        )
    types = set(types)
    if not types:
        return connection.execute(f"{_EVENTS} AND FALSE", (session_id,))
    # each type's events are read where they stand and merged; for a list of types the engine would read all others
    return connection.execute(
        " UNION ALL ".join([f"{_EVENTS} AND type = ? AND seq > ?"] * len(types)) + " ORDER BY seq",
        [value for type_ in types for value in (session_id, type_, after_seq)],
    )


def bodies_of(
    connection: sqlite3.Connection, session_id: str, type_: str
) -> tuple[Sequence[int], Sequence[str]]:
    """Return the seqs and the bodies of the session's events of one type, in order."""
    rows = connection.execute(
        "SELECT seq, body FROM events WHERE session = ? AND type = ? ORDER BY seq",
        (session_id, type_),
    ).fetchall()
    return [seq for seq, _ in rows], [body for _, body in rows]


def is_whole(connection: sqlite3.Connection, session_id: str, length: int) -> bool:
    """Return whether the session has the events 0 to ``length`` - 1 and no other."""
    # together, the three would have each seq looked at, three times as long; apart, the ends are two look-ups
    found: tuple[int, int | None, int | None] = connection.execute(
        "SELECT (SELECT count(*) FROM events INDEXED BY events_by_seq WHERE session = :session),"
        " (SELECT min(seq) FROM events WHERE session = :session),"
        " (SELECT max(seq) FROM events WHERE session = :session)",
        {"session": session_id},
    ).fetchone()
    return found == ((length, 0, length - 1) if length else (0, None, None))


def unknown_session(connection: sqlite3.Connection, place: str, session_id: str) -> SessionUnknownError:
    """Return the error for a session that is not there, with the ids most like it among those around its place."""
    around = [
        row[0]
        for behind, direction in (("<", "DESC"), (">", "ASC"))
        for row in connection.execute(
            f"SELECT id FROM sessions WHERE next_seq > 0 AND id {behind} ? ORDER BY id {direction} LIMIT ?",
            (session_id, COMPARED_EACH_WAY),
        )
    ]
    return SessionUnknownError(place, session_id, most_alike(session_id, around))


def apply(connection: sqlite3.Connection, append: Append, *, is_held: bool) -> Outcome:
    """Write one append, or refuse it; only COMMITTED leaves a trace.

    Raises:
        sqlite3.Error: if the engine fails; the caller rolls back.
    """
    row = connection.execute(
        "SELECT epoch, next_seq, wake_at FROM sessions WHERE id = ?", (append.session_id,)
    ).fetchone()
    if row is None or row[0] != append.epoch:
        return Outcome.FENCED
    next_seq: int = row[1]
    if append.expected_seq < next_seq and append.events:
        return Outcome.COMMITTED if _is_stored(connection, append) else Outcome.FENCED
    if append.expected_seq != next_seq:
        return Outcome.FENCED
    if not is_held:
        return Outcome.FENCED if append.events else Outcome.COMMITTED
    if append.header is not None and next_seq == 0:
        connection.execute(
            "UPDATE sessions SET seed_length = ?, parent = ? WHERE id = ?",
            (append.header.seed_length, append.header.parent, append.session_id),
        )
    _insert(connection, append.session_id, append.events)
    if not append.events and append.wake_at == row[2]:
        return Outcome.COMMITTED  # only letting go: nothing to write, so the commit touches no disk
    after = next_seq + len(append.events)
    if append.wake_at == row[2]:  # named in the statement, it would have its index written too
        connection.execute("UPDATE sessions SET next_seq = ? WHERE id = ?", (after, append.session_id))
    else:
        connection.execute(
            "UPDATE sessions SET next_seq = ?, wake_at = ? WHERE id = ?",
            (after, append.wake_at, append.session_id),
        )
    return Outcome.COMMITTED


def _insert(connection: sqlite3.Connection, session_id: str, events: Sequence[StoredEvent]) -> None:
    for event in events:
        failpoint("insert.before")
        connection.execute(
            "INSERT INTO events (session, seq, type, time, body) VALUES (?, ?, ?, ?, ?)", (session_id, *event)
        )
        failpoint("insert.after")


def _is_stored(connection: sqlite3.Connection, append: Append) -> bool:
    """Whether an append that is repeated had been committed: the same events stand at the same places."""
    stored = connection.execute(
        "SELECT seq, type, time, body FROM events WHERE session = ? AND seq >= ? AND seq < ? ORDER BY seq",
        (append.session_id, append.expected_seq, append.expected_seq + len(append.events)),
    )
    return tuple(StoredEvent(*row) for row in stored) == append.events
