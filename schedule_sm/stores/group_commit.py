"""Group commit: one thread that writes, and a queue; what queues up while a group is written goes into the next one.

``sqlite`` and ``jsonl`` stand on it; what a group means to the disk is theirs. The queue lives on the event loop's
thread, the write and the close run in the store's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from schedule_sm.stores.errors import StoreClosedError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.writer_thread import WriterThread

CLOSE_TIMEOUT_S: Final = 10.0
"""How long ``close`` waits for a write that hangs before it leaves the thread behind."""

_Part = TypeVar("_Part")
_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


class GroupCommit(Generic[_Part]):
    """The queue of one store and the thread that empties it."""

    def __init__(
        self, path: Path, write: Callable[[Sequence[_Part]], Sequence[Any]], close: Callable[[], None]
    ) -> None:
        """Write groups with ``write``, which answers each part with a result or an exception, and end with ``close``.

        Both run in the thread; ``close`` may be called twice.
        """
        self._path = path
        self._write = write
        self._close = close
        self._thread = WriterThread(f"schedule-sm store {path.name}")
        self._queue: list[tuple[_Part, asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._begun_at = 0.0
        self._is_closed = False
        self.is_left = False
        """Nobody waits for the close any more: the thread is to end as soon as it can."""

    async def open(self, job: Callable[..., None], *arguments: object) -> None:
        """Run the job that opens the store in its thread; the thread ends if that fails."""
        try:
            await self._in_thread(job, *arguments)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    async def commit(self, part: _Part) -> Any:
        """Put ``part`` into the next group and return its result.

        Raises:
            StoreClosedError: once the store is closed.
            Exception: what ``write`` answered for it.
        """
        self._check_open()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((part, future))
        if self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(
                self._commit_queue(), name=f"schedule-sm commits {self._path.name}"
            )
        return await future

    async def ask(self, question: Callable[[], _T]) -> _T:
        """Run ``question`` in the thread, between two groups; raises StoreClosedError once the store is closed."""
        self._check_open()
        return await self._in_thread(question)

    async def close(self) -> None:
        """Write what is queued, then close; a write that hangs for CLOSE_TIMEOUT_S in all is left to its thread."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        begun_at = loop.time() if self._committing is None else self._begun_at
        try:
            # what has hung so long is not waited for again
            async with asyncio.timeout_at(begun_at + CLOSE_TIMEOUT_S):
                if self._committing is not None:
                    await asyncio.wait({self._committing})
                await self._in_thread(self._close)
        except TimeoutError:
            _logger.error(
                "%s hangs in a write; it is left behind, its lock ends with this process", self._path
            )
        finally:
            self.is_left = True
            self._thread.submit(self._close)  # also for a close that was cancelled
            self._thread.shutdown(wait=False)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(str(self._path))

    async def _commit_queue(self) -> None:
        group: list[tuple[_Part, asyncio.Future[Any]]] = []
        try:
            while self._queue:
                await asyncio.sleep(0)  # whoever is ready in this turn of the loop joins the group
                group, self._queue = self._queue, []
                self._begun_at = asyncio.get_running_loop().time()
                results = await self._in_thread(self._write, [part for part, _ in group])
                failpoint("acknowledge.before")
                for (_, future), result in zip(group, results, strict=True):
                    _settle(future, result)
                failpoint("acknowledge.after")
        finally:
            self._committing = None
            for _, future in (*group, *self._queue):
                future.cancel()  # only when the loop itself is torn down

    async def _in_thread(self, job: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, *arguments)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if future.done():
        return  # its caller was cancelled; the write stands
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
