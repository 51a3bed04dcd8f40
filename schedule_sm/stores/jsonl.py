"""The JSONL store: one folder, one file per session, one line per event; appended and synced in groups.

Everything that is queued while a group is synced goes into the next one. Files are touched in one thread of the store's
own (``jsonl_files``); ownership is decided on the event loop's thread. What a line says stands in ``jsonl_lines``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from schedule_sm.clock import wall_ms
from schedule_sm.stores.errors import SessionHeldError, StoreError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.group_commit import GroupCommit
from schedule_sm.stores.jsonl_files import Acquire, Answer, HeldAppend, Request, SessionFiles
from schedule_sm.stores.jsonl_folder import HeldFolder
from schedule_sm.stores.jsonl_reader import JsonlReader
from schedule_sm.stores.protocol import Append, OpenedLog, Outcome, SessionInfo, StoredEvent, StoreStatistics

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class JsonlStore:
    """One folder of session files; open it with ``await JsonlStore.open(folder)``."""

    def __init__(self, path: Path) -> None:
        """Prepare; ``open`` does the rest in the store's thread."""
        path = path.absolute()  # it stays the same folder when the process changes its own
        self.path = path
        self._folder: HeldFolder | None = None
        self._files = SessionFiles(path)
        self._held: dict[str, int] = {}
        self._groups: GroupCommit[Sequence[Request]] = GroupCommit(path, self._write, self._close)
        self._appends = 0
        self.last_fault: StoreError | None = None
        """What failed last, until a group succeeds again."""

    @classmethod
    async def open(cls, path: str | os.PathLike[str]) -> JsonlStore:
        """Lock the folder, created 0700 if it is not there, and return the store; O(folder).

        Raises:
            StoreError: its class says what is wrong with the folder or its place; no lock is kept.
        """
        store = cls(Path(path))
        await store._groups.open(store._open, wall_ms())
        return store

    @staticmethod
    def open_read_only(path: str | os.PathLike[str]) -> JsonlReader:
        """Return a reader of a folder that may be in use by a running host; it takes no lock."""
        return JsonlReader(path)

    # -- the contract ---------------------------------------------------------------------------------------

    async def acquire(self, session_id: str, now_ms: int) -> SessionInfo:
        """See ``Store.acquire``; the file is read once. An unfinished batch at its end is dropped.

        Raises:
            DamagedLineError: if the file is damaged before its end; nothing of it is changed.
        """
        if session_id in self._held:
            raise SessionHeldError(str(self.path), session_id)
        self._held[session_id] = -1  # a second caller is refused while the first one's group is written
        try:
            info = _taken(await self._groups.commit([Acquire(session_id, now_ms)]))
        except BaseException:
            self._held.pop(session_id, None)
            raise
        self._held[session_id] = info.epoch
        return info

    async def read(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Sequence[StoredEvent]:
        """See ``Store.read``; O(file), also with ``types``."""
        return await self._ask(lambda: self._files.read(session_id, after_seq, types))

    async def open_log(self, session_id: str, types: Collection[str]) -> OpenedLog:
        """See ``ByTypeStore.open_log``; right behind ``acquire`` the file is not read again."""
        return await self._ask(lambda: self._files.open_log(session_id, types))

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        """See ``Store.append``: each session's part is all or nothing on its own."""
        requests = [
            HeldAppend(append, is_held=self._held.get(append.session_id) == append.epoch) for append in batch
        ]
        for append in batch:
            if append.let_go and not append.events:
                self._let_go(append)  # what this owner has queued is written before the next acquisition
        answers: list[Answer] = await self._groups.commit(requests)
        outcomes = [answer if isinstance(answer, Outcome) else Outcome.UNKNOWN for answer in answers]
        for append, outcome in zip(batch, outcomes, strict=True):
            if append.let_go and outcome is Outcome.COMMITTED:
                self._let_go(append)
                self._groups.idly(self._files.index_let_go)
        self._appends += outcomes.count(Outcome.COMMITTED)
        return outcomes

    def _let_go(self, append: Append) -> None:
        if self._held.get(append.session_id) == append.epoch:
            del self._held[append.session_id]

    async def live(self) -> Sequence[SessionInfo]:
        """See ``Store.live``; the first call reads every file, later ones none."""
        held = tuple(self._held)
        return await self._ask(lambda: self._files.live(held))

    async def close(self) -> None:
        """See ``Store.close``; a write that hangs is left to its thread after a while."""
        await self._groups.close()

    def statistics(self) -> StoreStatistics:
        """Return how much was committed so far; a commit is a group of files that were synced."""
        return StoreStatistics(self._files.syncs, self._appends)

    async def _ask(self, question: Callable[[], _T]) -> _T:
        def run() -> _T:
            try:
                return question()
            except OSError as error:
                raise fault_of(error, str(self.path)) from error

        return await self._groups.ask(run)

    # -- in the store's thread ------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> None:
        self._folder = HeldFolder(self.path, now_ms)

    def _write(self, group: Sequence[Sequence[Request]]) -> list[list[Answer]]:
        failpoint("begin.before")
        failpoint("begin.after")
        answers = self._commit([request for requests in group for request in requests])
        fault = next((answer for answer in answers if isinstance(answer, StoreError)), None)
        if fault is not None and (self.last_fault is None or self.last_fault.code != fault.code):
            _logger.warning("a write failed: %s", fault)
        self.last_fault = fault
        in_order = iter(answers)
        return [[next(in_order) for _ in requests] for requests in group]

    def _commit(self, requests: Sequence[Request]) -> Sequence[Answer]:
        assert self._folder is not None
        try:
            self._folder.check_lock()
        except (OSError, StoreError) as error:
            return [fault_of(error, str(self.path))] * len(requests)
        return self._files.commit(requests)

    def _close(self) -> None:
        if self._folder is not None:
            self._folder.release()


def _taken(answers: Sequence[Answer]) -> SessionInfo:
    (answer,) = answers
    if isinstance(answer, StoreError):
        raise answer
    assert isinstance(answer, SessionInfo)
    return answer
