"""The SQLite schema and the steps that lead to it; each opening for writing runs the missing ones in one transaction.

Timestamps are columns that a caller fills: SQL's own clock is never read.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from schedule_sm.stores.errors import NewerSchemaError, NotADatabaseError

APPLICATION_ID: Final = 0x5343_4D31
"""``SCM1`` in the file's header: tells this project's files from any other SQLite file."""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    # version 1
    (
        """CREATE TABLE sessions (
            id TEXT NOT NULL PRIMARY KEY,
            parent TEXT,
            seed_length INTEGER NOT NULL,
            epoch INTEGER NOT NULL,
            next_seq INTEGER NOT NULL,
            wake_at INTEGER,
            created_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE events (
            session TEXT NOT NULL REFERENCES sessions (id),
            seq INTEGER NOT NULL,
            type TEXT NOT NULL,
            time INTEGER NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, seq)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX events_by_type ON events (session, type, seq)",
        "CREATE INDEX sessions_by_wake ON sessions (wake_at) WHERE wake_at IS NOT NULL",
    ),
    # version 2: the events of one type stand together, so that a session comes to life without a look-up for each
    (
        "ALTER TABLE events RENAME TO events_in_order",
        """CREATE TABLE events (
            session TEXT NOT NULL REFERENCES sessions (id),
            seq INTEGER NOT NULL,
            type TEXT NOT NULL,
            time INTEGER NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (session, type, seq)
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO events SELECT * FROM events_in_order INDEXED BY events_by_type ORDER BY session, type, seq",
        "DROP TABLE events_in_order",
        "CREATE UNIQUE INDEX events_by_seq ON events (session, seq)",
    ),
)
"""``MIGRATIONS[n]`` leads from schema version n to n + 1. Never edit one that was released: add the next."""

SCHEMA_VERSION: Final = len(MIGRATIONS)


def check_schema(connection: sqlite3.Connection, place: str) -> int:
    """Return the file's schema version, 0 for a fresh file; it writes nothing.

    Raises:
        NotADatabaseError: for the file of another program.
        NewerSchemaError: for a file of a later release.
        sqlite3.Error: if the file cannot be read.
    """
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION_ID and (tables or version or application):
        raise NotADatabaseError(place, "it is an SQLite file of another program")
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(place, version, SCHEMA_VERSION)
    return version


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Bring the file to ``SCHEMA_VERSION``, all missing steps or none.

    Raises:
        NotADatabaseError, NewerSchemaError: see ``check_schema``.
        sqlite3.Error: if the file cannot be read or written.
    """
    version = check_schema(connection, place)
    if version == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in MIGRATIONS[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
