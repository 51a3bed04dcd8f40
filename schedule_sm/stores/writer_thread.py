"""One daemon thread that runs a store's jobs in order, usable with ``loop.run_in_executor``.

``ThreadPoolExecutor`` joins its threads when the interpreter ends, so a disk that hangs would keep the process for
ever; a daemon thread is waited for LEAVE_S and let go. One thread, because an SQLite connection has one writer anyway.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Final, ParamSpec, TypeVar
from weakref import WeakSet

LEAVE_S: Final = 1.0
"""How long the end of the process waits for a thread that was told to end: what it holds is then closed in order."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_ending: WeakSet[threading.Thread] = WeakSet()


@atexit.register
def _wait_for_ends() -> None:
    for thread in tuple(_ending):
        thread.join(LEAVE_S)


class WriterThread(Executor):
    """Runs one job at a time, in the order of submission."""

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_shut = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Queue ``fn`` and return the future of its result."""
        if self._is_shut:
            msg = "the store's thread has ended"
            raise RuntimeError(msg)
        future: Future[_T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the future
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - Executor's signature
        """End the thread after the jobs that are queued; ``wait`` joins it."""
        if not self._is_shut:
            self._is_shut = True
            _ending.add(self._thread)
            self._jobs.put(None)
        if wait:
            self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # a job holds its arguments and its result
