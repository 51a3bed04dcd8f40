"""How one session's log becomes durable: bounded flushes over a write that is repeated until its outcome is known.

At most one append per session is on its way. A batch is cut on the loop's thread, so never between a message and its
dispatch, which are appended with no await between them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from schedule_sm.embedded.encoded_log import EncodedLog
from schedule_sm.stores.errors import StoreClosedError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.protocol import Append, NewSession, Outcome, Store

FLUSH_TIMEOUT_S: Final = 10.0
"""How long a flush waits before it answers "not confirmed"; the write stays pending."""

LAST_TRY_S: Final = 1.0
"""How long closing waits for a write that has failed or hung before."""

_NO_SEQ: Final = -1
"""An expected seq that no log has: nothing is written with it, not even a wake."""

FIRST_BACKOFF_S: Final = 0.1
LONGEST_BACKOFF_S: Final = 30.0

_logger = logging.getLogger(__name__)


class SessionWriter:
    """Writes one acquired session. It has a task only while something is to be written."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        log: EncodedLog,
        *,
        epoch: int,
        durable: int,
        header: NewSession | None,
        wake_at: Callable[[], int | None],
        flush_timeout_s: float = FLUSH_TIMEOUT_S,
    ) -> None:
        """Write ``log`` from its first ``durable`` events on, under ``epoch``."""
        self._store = store
        self._session_id = session_id
        self._log = log
        self._epoch = epoch
        self._header = header
        self._wake_at = wake_at
        self._timeout_s = flush_timeout_s
        self.durable = durable
        """How many leading events of the log are durable."""
        self.is_over = False
        """Fenced or closed: nothing will be written any more."""
        self.on_committed: Callable[[bool], None] = lambda late: None
        """Called after each commit; its argument says whether a flush was told "not confirmed" before."""
        self.on_fenced: Callable[[], None] = lambda: None
        """Called once when another owner has taken the session over."""
        self._unknown: Append | None = None
        self._waiters: dict[asyncio.Future[bool], int] = {}
        self._task: asyncio.Task[None] | None = None
        self._retry_now = asyncio.Event()
        self._owes_news = False

    async def flush(self) -> bool:
        """Return whether every event in the log at the call is durable; ``False`` at the latest after the bound.

        A clean log touches no disk. A caller that is cancelled takes nothing back: the write goes on.
        """
        failpoint("flush.before")
        target = len(self._log)
        if self.is_over or self.durable >= target:
            return not self.is_over
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters[waiter] = target
        bound = loop.call_later(self._timeout_s, self._give_up, waiter)
        self._start()
        try:
            return await waiter
        finally:
            bound.cancel()
            self._waiters.pop(waiter, None)
            failpoint("flush.after")

    def _give_up(self, waiter: asyncio.Future[bool]) -> None:
        if not waiter.done():
            self._owes_news = True
            waiter.set_result(False)

    async def close(self) -> bool:
        """Write what is pending, give the session up and write no more; whether all of it is certain. Bounded."""
        confirmed = False
        try:  # what has failed is tried once more, in short
            async with asyncio.timeout(LAST_TRY_S if self._owes_news else self._timeout_s):
                confirmed = await self.flush() and self.durable == len(self._log)
        except TimeoutError:
            pass  # not confirmed
        finally:
            await self._end()
            await self._let_go(confirmed=confirmed)
        return confirmed

    async def _let_go(self, *, confirmed: bool) -> None:
        """Give the session up, so that it can be opened again, also when its last write is pending for good."""
        seq, wake_at = (self.durable, self._wake_at()) if confirmed else (_NO_SEQ, None)
        try:
            async with asyncio.timeout(LAST_TRY_S):
                await self._attempt(Append(self._session_id, self._epoch, seq, (), wake_at, let_go=True))
        except TimeoutError:
            _logger.warning("session %r was given up while the store hangs", self._session_id)

    # -- the task -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._retry_now.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._write(), name=f"schedule-sm writes of {self._session_id}"
            )

    async def _write(self) -> None:
        failures = 0
        try:
            while self.durable < len(self._log) and not self.is_over:
                append = self._unknown or self._cut()
                outcome = await self._attempt(append)
                if outcome is Outcome.COMMITTED:
                    failures = 0
                    self._committed(append)
                elif outcome is Outcome.FENCED:
                    self._fenced()
                else:
                    self._unknown = append  # exactly this is repeated until its outcome is known
                    self._owes_news = True
                    self._answer(confirmed=False)
                    await self._back_off(failures)
                    failures += 1
        finally:
            self._task = None
            self._answer(
                confirmed=False
            )  # who still waits: this task was cancelled, by close or with the loop

    def _cut(self) -> Append:
        """Return everything that is not durable as one append; plain code, so nothing is appended meanwhile."""
        return Append(
            self._session_id,
            self._epoch,
            self.durable,
            self._log.stored(self.durable),
            self._wake_at(),
            header=self._header if self.durable == 0 else None,
        )

    async def _attempt(self, append: Append) -> Outcome:
        try:
            return (await self._store.append([append]))[0]
        except StoreClosedError:
            _logger.warning("the store was closed before session %r was written", self._session_id)
            return Outcome.FENCED
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            _logger.exception("the store cancelled its write of session %r", self._session_id)
        except Exception:  # a store of somebody else's that raises has answered nothing; it is asked again
            _logger.exception("the store failed to write session %r", self._session_id)
        return Outcome.UNKNOWN

    def _committed(self, append: Append) -> None:
        self._unknown = None
        self.durable = append.expected_seq + len(append.events)
        for waiter, target in self._waiters.items():
            if target <= self.durable and not waiter.done():
                waiter.set_result(True)
        late, self._owes_news = self._owes_news, False
        self.on_committed(late)

    def _fenced(self) -> None:
        self.is_over = True
        self._answer(confirmed=False)
        _logger.warning("session %r was taken over by another owner", self._session_id)
        self.on_fenced()

    def _answer(self, *, confirmed: bool) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(confirmed)

    async def _back_off(self, failures: int) -> None:
        """Wait before the same append is repeated; a flush that comes meanwhile asks for it at once."""
        longest_s = min(FIRST_BACKOFF_S * 2 ** min(failures, 20), LONGEST_BACKOFF_S)
        self._retry_now.clear()
        try:
            async with asyncio.timeout(longest_s * random.uniform(0.5, 1.0)):
                await self._retry_now.wait()
        except TimeoutError:
            return

    async def _end(self) -> None:
        self.is_over = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._answer(confirmed=False)
