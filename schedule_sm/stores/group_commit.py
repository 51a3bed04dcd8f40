"""Group commit: one thread that writes, and a queue; what queues up while a group is written goes into the next one.

``sqlite`` and ``jsonl`` stand on it; what a group means to the disk is theirs. The queue lives on the event loop's
thread, the write and the close run in the store's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from schedule_sm.stores.errors import StoreClosedError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.writer_thread import WriterThread

CLOSE_TIMEOUT_S: Final = 10.0
"""How long ``close`` waits for a write that hangs before it leaves the thread behind."""

_Part = TypeVar("_Part")
_T = TypeVar("_T")
_Group: TypeAlias = list[tuple[_Part, asyncio.Future[Any]]]
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
        self._emptied: asyncio.Future[None] | None = None  # while something is queued or written
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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.append((part, future))
        if self._emptied is None:
            self._emptied = loop.create_future()
            loop.call_soon(self._begin)  # whoever is ready in this turn of the loop joins the group
        return await future

    async def ask(self, question: Callable[[], _T]) -> _T:
        """Run ``question`` in the thread, between two groups; raises StoreClosedError once the store is closed."""
        self._check_open()
        return await self._in_thread(question)

    def idly(self, job: Callable[[], None]) -> None:
        """Run ``job``, which raises nothing, in the thread when it comes to it; nobody waits for it."""
        if not self._is_closed:
            self._thread.submit(job)

    async def close(self) -> None:
        """Write what is queued, then close; a write that hangs for CLOSE_TIMEOUT_S in all is left to its thread."""
        if self._is_closed:
            return
        self._is_closed = True
        loop = asyncio.get_running_loop()
        begun_at = loop.time() if self._emptied is None else self._begun_at
        try:
            # what has hung so long is not waited for again
            async with asyncio.timeout_at(begun_at + CLOSE_TIMEOUT_S):
                if self._emptied is not None:
                    await asyncio.wait({self._emptied})
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

    # Callbacks, not a task: somebody waits for each commit, and each turn of the loop that it takes costs him time.

    def _begin(self) -> None:
        group, self._queue = self._queue, []
        loop = asyncio.get_running_loop()
        self._begun_at = loop.time()
        try:
            writing = loop.run_in_executor(self._thread, self._write, [part for part, _ in group])
        except RuntimeError:  # the thread was left behind in a write that hung, and has ended since
            self._answer(group, [StoreClosedError(str(self._path))] * len(group))
        else:
            writing.add_done_callback(lambda _: self._written(group, writing))

    def _written(self, group: _Group[_Part], writing: asyncio.Future[Sequence[Any]]) -> None:
        failpoint("acknowledge.before")
        error = asyncio.CancelledError() if writing.cancelled() else writing.exception()
        self._answer(group, writing.result() if error is None else [error] * len(group))
        failpoint("acknowledge.after")

    def _answer(self, group: _Group[_Part], results: Sequence[Any]) -> None:
        for (_, future), result in zip(group, results, strict=True):
            _settle(future, result)
        if self._queue:
            asyncio.get_running_loop().call_soon(self._begin)
        elif self._emptied is not None:
            self._emptied.set_result(None)
            self._emptied = None

    async def _in_thread(self, job: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, *arguments)


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if future.done():
        return  # its caller was cancelled; the write stands
    if isinstance(result, asyncio.CancelledError):
        future.cancel()
    elif isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
