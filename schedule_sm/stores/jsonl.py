"""The JSONL store: one folder, one file per session, one line per event; appended and synced in groups.

Everything that is queued while a group is synced goes into the next one. Files are touched in one thread of the store's
own (``jsonl_files``); ownership is decided on the event loop's thread. What a line says stands in ``jsonl_lines``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from schedule_sm.clock import wall_ms
from schedule_sm.stores.errors import SessionHeldError, StoreClosedError, StoreError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.jsonl_files import Acquire, Answer, HeldAppend, Request, SessionFiles
from schedule_sm.stores.jsonl_folder import HeldFolder
from schedule_sm.stores.jsonl_reader import JsonlReader
from schedule_sm.stores.protocol import Append, Outcome, SessionInfo, StoredEvent, StoreStatistics
from schedule_sm.stores.sqlite_file import fault_of
from schedule_sm.stores.writer_thread import WriterThread

CLOSE_TIMEOUT_S: Final = 10.0
"""How long ``close`` waits for a write that hangs before it leaves the thread behind."""

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class _Call:
    """One caller's part of the next group."""

    __slots__ = ("future", "requests")

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()


class JsonlStore:
    """One folder of session files; open it with ``await JsonlStore.open(folder)``."""

    def __init__(self, path: Path) -> None:
        """Prepare; ``open`` does the rest in the store's thread."""
        self.path = path
        self._thread = WriterThread(f"schedule-sm store {path.name}")
        self._folder: HeldFolder | None = None
        self._files = SessionFiles(path)
        self._held: dict[str, int] = {}
        self._queue: list[_Call] = []
        self._committing: asyncio.Task[None] | None = None
        self._commit_begun_at = 0.0
        self._is_closed = False
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
        try:
            await store._in_thread(store._open, wall_ms())
        except BaseException:
            store._thread.shutdown(wait=False)
            raise
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
            info = _taken(await self._commit([Acquire(session_id, now_ms)]))
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

    async def append(self, batch: Sequence[Append]) -> Sequence[Outcome]:
        """See ``Store.append``: each session's part is all or nothing on its own."""
        requests = [
            HeldAppend(append, is_held=self._held.get(append.session_id) == append.epoch) for append in batch
        ]
        for append in batch:
            if append.let_go and not append.events:
                self._let_go(append)  # what this owner has queued is written before the next acquisition
        answers = await self._commit(requests)
        outcomes = [answer if isinstance(answer, Outcome) else Outcome.UNKNOWN for answer in answers]
        for append, outcome in zip(batch, outcomes, strict=True):
            if append.let_go and outcome is Outcome.COMMITTED:
                self._let_go(append)
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
        """See ``Store.close``; a write that hangs for CLOSE_TIMEOUT_S in all is left to its thread."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        begun_at = loop.time() if self._committing is None else self._commit_begun_at
        try:
            async with asyncio.timeout_at(begun_at + CLOSE_TIMEOUT_S):
                if self._committing is not None:
                    await asyncio.wait({self._committing})
                await self._in_thread(self._close)
        except TimeoutError:
            _logger.error(
                "%s hangs in a write; it is left behind, its lock ends with this process", self.path
            )
        finally:
            self._thread.shutdown(wait=False)

    def statistics(self) -> StoreStatistics:
        """Return how much was committed so far; a commit is a group of files that were synced."""
        return StoreStatistics(self._files.syncs, self._appends)

    # -- groups, on the loop's thread -----------------------------------------------------------------------

    async def _commit(self, requests: Sequence[Request]) -> list[Answer]:
        if self._is_closed:
            raise StoreClosedError(str(self.path))
        call = _Call(requests)
        self._queue.append(call)
        if self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(
                self._commit_queue(), name=f"schedule-sm commits {self.path.name}"
            )
        return await call.future

    async def _commit_queue(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)  # whoever is ready in this turn of the loop joins the group
                calls, self._queue = self._queue, []
                self._commit_begun_at = asyncio.get_running_loop().time()
                answers = iter(
                    await self._in_thread(self._write, [r for call in calls for r in call.requests])
                )
                failpoint("acknowledge.before")
                for call in calls:
                    part = [next(answers) for _ in call.requests]
                    if not call.future.done():  # else its caller was cancelled; the write stands
                        call.future.set_result(part)
                failpoint("acknowledge.after")
        finally:
            self._committing = None
            for call in self._queue:
                call.future.cancel()  # only when the loop itself is torn down

    async def _ask(self, question: Callable[[], _T]) -> _T:
        if self._is_closed:
            raise StoreClosedError(str(self.path))

        def run() -> _T:
            try:
                return question()
            except OSError as error:
                raise fault_of(error, str(self.path)) from error

        return await self._in_thread(run)

    async def _in_thread(self, job: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, *arguments)

    # -- in the store's thread ------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> None:
        self._folder = HeldFolder(self.path, now_ms)

    def _write(self, requests: Sequence[Request]) -> list[Answer]:
        failpoint("begin.before")
        failpoint("begin.after")
        answers = self._files.commit(requests)
        fault = next((answer for answer in answers if isinstance(answer, StoreError)), None)
        if fault is not None and (self.last_fault is None or self.last_fault.code != fault.code):
            _logger.warning("a write failed: %s", fault)
        self.last_fault = fault
        return answers

    def _close(self) -> None:
        if self._folder is not None:
            self._folder.release()


def _taken(answers: Sequence[Answer]) -> SessionInfo:
    (answer,) = answers
    if isinstance(answer, StoreError):
        raise answer
    assert isinstance(answer, SessionInfo)
    return answer
