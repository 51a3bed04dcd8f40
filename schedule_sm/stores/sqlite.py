"""The SQLite store: WAL, one writer thread, group commit across sessions, one exclusive lock on the file.

Everything that is queued while a commit runs goes into the next transaction. That needs one place that sees the whole
queue, so the standard library's ``sqlite3`` runs in one thread of the store's own: aiosqlite has a thread and a queue
per connection, commits call by call and cannot merge them. All state but the connection lives on the event loop's
thread. Ownership of every session comes with the lock on the file.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from schedule_sm.clock import wall_ms
from schedule_sm.stores import sqlite_rows as rows
from schedule_sm.stores.errors import (
    SessionHeldError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreIOError,
)
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.group_commit import GroupCommit
from schedule_sm.stores.protocol import Append, OpenedLog, Outcome, SessionInfo, StoredEvent, StoreStatistics
from schedule_sm.stores.sqlite_file import HeldFile, real_file, uri, wal_of
from schedule_sm.stores.sqlite_pages import SqlitePages
from schedule_sm.stores.sqlite_reader import SqliteReader
from schedule_sm.stores.sqlite_schema import check_schema, migrate

BUSY_TIMEOUT_MS: Final = 2_000
"""How long a commit waits for another program's write lock; below a flush's 10 s, so that a retry fits in it."""
_AT_ONCE_MS: Final = 50
"""How long the engine waits for it at a time: nothing can wake it there, and a close that was left must not last."""

_LOG_PAGES: Final = 1_000
"""How long the WAL gets before the engine's own checkpoint lets it begin anew (its default)."""
_GROW_AFTER: Final = 8
"""Commits of one opening: a store that is only looked at, or closed soon, stays small."""

_T = TypeVar("_T")
_Operation: TypeAlias = Callable[[sqlite3.Connection], Any]
"""One caller's part of a transaction."""
_logger = logging.getLogger(__name__)


class SqliteStore:
    """One SQLite file; open it with ``await SqliteStore.open(path)``."""

    def __init__(self, path: Path, *, synchronous: Literal["FULL", "NORMAL"], busy_timeout_ms: int) -> None:
        """Prepare; ``open`` does the rest in the store's thread."""
        self.path = path
        self._synchronous = synchronous
        self._busy_timeout_ms = busy_timeout_ms
        self._file: HeldFile | None = None
        self._connection: sqlite3.Connection | None = None
        self._held: dict[str, int] = {}
        self._groups: GroupCommit[_Operation] = GroupCommit(path, self._transact, self._close)
        self._is_unsettled = False
        self._wal: int | None = None
        self._is_grown = False
        self._commits = 0
        self._appends = 0
        self.last_fault: StoreError | None = None
        """What failed last, until a commit succeeds again."""

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> SqliteStore:
        """Lock the file (created 0600 if it is not there), bring its schema up to date and return the store.

        Args:
            path: the database file; ``.lock`` and ``.holder`` files lie beside it.
            synchronous: ``NORMAL`` is for benchmarks: a power failure may then lose the last commits.
            busy_timeout_ms: how long a commit waits for another program's write lock.

        Raises:
            StoreError: its class says what is wrong with the file or its place; no lock is kept.
        """
        store = cls(real_file(path), synchronous=synchronous, busy_timeout_ms=busy_timeout_ms)
        await store._groups.open(store._open, wall_ms())
        return store

    @staticmethod
    def open_read_only(path: str | os.PathLike[str]) -> SqliteReader:
        """Return a reader of a file that may be in use by a running host; it takes no lock."""
        return SqliteReader(path)

    # -- the contract ---------------------------------------------------------------------------------------

    async def acquire(self, session_id: str, now_ms: int) -> SessionInfo:
        """See ``Store.acquire``."""
        if session_id in self._held:
            raise SessionHeldError(str(self.path), session_id)
        self._held[session_id] = -1  # a second caller is refused while the first one's transaction runs
        try:
            info: SessionInfo = await self._groups.commit(
                lambda connection: rows.acquire(connection, session_id, now_ms)
            )
        except BaseException:
            self._held.pop(session_id, None)
            raise
        self._held[session_id] = info.epoch
        return info

    async def read(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Sequence[StoredEvent]:
        """See ``Store.read``; with ``types`` nothing else is read."""

        def read(connection: sqlite3.Connection) -> list[StoredEvent]:
            if rows.session_info(connection, session_id) is None:
                raise rows.unknown_session(connection, str(self.path), session_id)
            return [
                StoredEvent._make(row) for row in rows.read_events(connection, session_id, after_seq, types)
            ]

        return await self._read(read)

    async def open_log(self, session_id: str, types: Collection[str]) -> OpenedLog:
        """See ``ByTypeStore.open_log``; the others are counted, not read."""

        def read(connection: sqlite3.Connection) -> OpenedLog:
            info = rows.session_info(connection, session_id)
            if info is None:
                raise rows.unknown_session(connection, str(self.path), session_id)
            if not rows.is_whole(connection, session_id, info.next_seq):
                raise StoreIOError(str(self.path), f"events of session {session_id!r} are missing")
            known = {type_: rows.bodies_of(connection, session_id, type_) for type_ in types}
            return OpenedLog(SqlitePages(self.path, session_id, info.next_seq), known)

        return await self._read(read)

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        """See ``Store.append``."""
        held = [self._held.get(append.session_id) == append.epoch for append in batch]
        for append in batch:
            if append.let_go and not append.events:
                self._let_go(append)  # what this owner has queued is written before the next acquisition

        def write(connection: sqlite3.Connection) -> list[Outcome]:
            return [
                rows.apply(connection, append, is_held=is_held)
                for append, is_held in zip(batch, held, strict=True)
            ]

        try:
            outcomes: list[Outcome] = await self._groups.commit(write)
        except StoreClosedError:
            raise
        except StoreError:  # reported by _transact; what is unknown is repeated by the writer of the session
            return [Outcome.UNKNOWN] * len(batch)
        for append, outcome in zip(batch, outcomes, strict=True):
            if append.let_go and outcome is Outcome.COMMITTED:
                self._let_go(append)
        self._appends += outcomes.count(Outcome.COMMITTED)
        if self._commits >= _GROW_AFTER and not self._is_grown:
            self._is_grown = True
            self._groups.idly(self._grow_log)
        return outcomes

    def _let_go(self, append: Append) -> None:
        if self._held.get(append.session_id) == append.epoch:
            del self._held[append.session_id]

    async def live(self) -> Sequence[SessionInfo]:
        """See ``Store.live``."""
        held = tuple(self._held)
        return await self._read(lambda connection: rows.live_sessions(connection, held))

    async def close(self) -> None:
        """See ``Store.close``; a write that hangs is left to its thread after a while."""
        await self._groups.close()

    def statistics(self) -> StoreStatistics:
        """Return how much was committed so far."""
        return StoreStatistics(self._commits, self._appends)

    async def _read(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        def run() -> _T:
            try:
                return self._patiently(lambda: query(self._open_connection()))
            except (sqlite3.Error, OSError) as error:
                raise fault_of(error, str(self.path)) from error

        return await self._groups.ask(run)

    # -- in the store's thread ------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> None:
        self._file = HeldFile(self.path, now_ms)
        try:
            self._patiently(lambda: migrate(self._open_connection(), str(self.path)))
        except BaseException as error:
            self._close()
            if isinstance(error, (sqlite3.Error, OSError)):
                raise fault_of(error, str(self.path)) from error
            raise

    def _open_connection(self) -> sqlite3.Connection:
        """Return the connection, opened anew after a fault that broke it."""
        if self._connection is None:
            self._held_file().wal()
            connection = sqlite3.connect(
                f"{uri(self.path)}?mode=rw",  # it was created 0600; never create it here
                uri=True,
                timeout=min(self._busy_timeout_ms, _AT_ONCE_MS) / 1_000,
                isolation_level=None,
            )
            try:
                check_schema(
                    connection, str(self.path)
                )  # before the first write: it may be another program's
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                self._settle_log(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _settle_log(self, connection: sqlite3.Connection) -> None:
        """After a COMMIT that failed: make sure of what is in the WAL, or raise.

        A commit whose sync failed is there again on the next connection, as if it had succeeded, and no later sync
        helps: the kernel may have dropped the pages. Copied into the database file and synced there, it is certain.
        """
        if self._is_unsettled:
            is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise StoreBusyError(str(self.path))
            self._is_unsettled = False

    def _grow_log(self) -> None:
        """Write the WAL out to its full length at once, with pages that are rolled back.

        A sync of a file that has grown waits for the file system's journal too, which about doubles a small commit.
        """
        connection = self._connection
        if connection is None:
            return
        try:
            page: int = connection.execute("PRAGMA page_size").fetchone()[0]
            cached: int = connection.execute("PRAGMA cache_size").fetchone()[0]
            connection.execute("PRAGMA cache_size = 16")  # what does not fit in is written before its commit
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE filler (pages BLOB)")
            connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (page * _LOG_PAGES,))
            connection.execute("ROLLBACK")
            connection.execute(f"PRAGMA cache_size = {cached}")
            with open(wal_of(self.path), "rb") as log:
                os.fsync(log.fileno())
        except (sqlite3.Error, OSError) as error:
            # a full disk, another program's lock: commits are slower, no more
            _logger.info("the WAL of %s was not grown: %s", self.path, error)
            self._drop_connection()

    def _patiently(self, job: Callable[[], _T]) -> _T:
        """Run ``job``, and again while another program has the file locked, up to the busy timeout."""
        for _ in range(self._busy_timeout_ms // _AT_ONCE_MS - 1):
            try:
                return job()
            except (sqlite3.Error, StoreBusyError) as error:
                if self._groups.is_left or not isinstance(fault_of(error, ""), StoreBusyError):
                    raise
        return job()

    def _begin(self) -> sqlite3.Connection:
        connection = self._open_connection()
        connection.execute("BEGIN IMMEDIATE")
        if self._wal is None:
            self._wal = self._held_file().wal()  # it is there now
        return connection

    def _check_unmoved(self) -> None:
        """Raise if what was committed stands in a file that has lost its name; closing the connection saves a WAL."""
        if self._held_file().wal() != self._wal:
            raise StoreIOError(str(self.path), "another program has removed or replaced its WAL")

    def _held_file(self) -> HeldFile:
        assert self._file is not None
        return self._file

    def _transact(self, operations: Sequence[_Operation]) -> list[Any]:
        """Run every operation in one transaction; a result or the error that all of them share."""
        try:
            failpoint("begin.before")
            self._held_file().check_lock()
            connection = self._patiently(self._begin)
            failpoint("begin.after")
            changes_before = connection.total_changes
            results = [self._run_one(connection, operation) for operation in operations]
            failpoint("commit.before")
            self._is_unsettled = True
            connection.execute("COMMIT")
            self._check_unmoved()
            self._is_unsettled = False
            failpoint("commit.after")
        except Exception as error:  # noqa: BLE001 - whatever it was, every caller gets an answer: not committed
            self._drop_connection()
            fault = self._held_file().look_again(fault_of(error, str(self.path)))
            if self.last_fault is None or self.last_fault.code != fault.code:
                _logger.warning("a commit failed: %s", fault)
            self.last_fault = fault
            return [fault] * len(operations)
        self.last_fault = None
        self._commits += connection.total_changes > changes_before
        return results

    def _run_one(self, connection: sqlite3.Connection, operation: _Operation) -> Any:
        """Run one operation under a savepoint: data that cannot be stored harms no other session."""
        connection.execute("SAVEPOINT one")
        try:
            result = operation(connection)
        except (sqlite3.DataError, sqlite3.IntegrityError, ValueError, OverflowError, TypeError) as error:
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            _logger.warning("an append cannot be stored: %s", type(error).__name__)
            return fault_of(error, str(self.path))
        connection.execute("RELEASE one")
        return result

    def _drop_connection(self) -> None:
        """Closing rolls back; the next transaction begins on a connection that no fault has touched."""
        connection, self._connection = self._connection, None
        self._wal = None
        if connection is not None:
            try:
                connection.close()
            except sqlite3.Error as error:
                _logger.warning("a connection could not be closed: %s", error)

    def _close(self) -> None:
        self._drop_connection()
        if self._file is not None:
            self._file.release()
