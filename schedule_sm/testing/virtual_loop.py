"""An event loop whose clock is a number: it moves only when somebody moves it.

The selector never sleeps. asyncio asks it to wait only when no callback is ready, so that moment *is* quiet, exactly.
Threads are waited for in real time, never in virtual time. Nothing here knows of the wall clock: see ``travel``.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
import selectors
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar, TypeVarTuple

from schedule_sm.testing.stuck_report import StuckError, render_stuck

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

START_OF_LOOP_CLOCK: Final = 1000.0
"""Not 0, so that a test cannot confuse a loop time with a duration."""
PATIENCE_S: Final = 10.0
"""Real seconds for threads, sockets and child processes to answer; below the 20 s that a test may take."""
TURNS_WITHOUT_QUIET: Final = 1_000_000
"""Loop turns (about ten real seconds) after which a loop that never comes to rest is reported."""
POLL_S: Final = 0.001
"""Real seconds between two looks at a counter of jobs that belong to threads foreign to the loop."""
_OWN_DESCRIPTORS: Final = 1
"""The loop's own wake-up socket is always registered."""


class PendingJobs(Protocol):
    """How many jobs a thread foreign to the loop has still to answer."""

    def __call__(self) -> int:
        """Return the number of unanswered jobs; called on the loop's thread."""


class _QuietSelector(selectors.DefaultSelector):
    """Polls; reports quiet instead of sleeping."""

    def __init__(self, on_quiet: Callable[[], float | None], on_busy_turn: Callable[[], None]) -> None:
        super().__init__()
        self._on_quiet = on_quiet
        self._on_busy_turn = on_busy_turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if timeout is None or timeout > 0:
            while not ready and (real_wait_s := self._on_quiet()) is not None:
                ready = super().select(real_wait_s)
        if ready or timeout == 0:
            self._on_busy_turn()
        return ready

    def has_news(self) -> bool:
        """Whether a descriptor is ready, which takes nothing from it."""
        return bool(super().select(0))


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop on a virtual clock; ``travel`` drives it."""

    def __init__(self) -> None:
        """Start the clock at ``START_OF_LOOP_CLOCK``."""
        self._now = START_OF_LOOP_CLOCK
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_numbers = itertools.count()
        self._quiet_waiters: deque[asyncio.Future[None]] = deque()
        self._executor_jobs = 0
        self._foreign_jobs: list[PendingJobs] = []
        self._turns = 0
        self._waited_s = 0.0
        self.patience_s = PATIENCE_S
        """Real seconds to wait for threads and I/O before the loop counts as stuck."""
        self._quiet_selector = _QuietSelector(self._when_quiet, self._when_busy)
        super().__init__(self._quiet_selector)

    def time(self) -> float:
        """Return the virtual loop time in seconds."""
        return self._now

    def move_to(self, loop_time: float) -> None:
        """Set the clock; the timers that are due then run in the loop's next turns.

        Raises:
            ValueError: if the clock would go back, which no monotonic clock does.
        """
        if loop_time < self._now:
            raise ValueError(f"the loop's clock cannot go from {self._now!r} back to {loop_time!r}")
        self._now = loop_time
        # asyncio fires what is due before now + resolution. A nanosecond is lost in a float of 97 days and more:
        # nothing would ever be due and the loop would spin.
        self._clock_resolution = max(1e-9, math.ulp(loop_time))

    def next_timer(self) -> float | None:
        """Return the loop time of the earliest timer that is still to come, or ``None``."""
        while self._timers:
            when, _, handle = self._timers[0]
            if when > self._now and not handle.cancelled():
                return when
            heapq.heappop(self._timers)
        return None

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Arm a timer, and remember when (``call_later`` comes through here too)."""
        handle = super().call_at(when, callback, *args, context=context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return handle

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        """Run ``func`` in a real thread; the loop is not quiet before its result is in."""
        future = super().run_in_executor(executor, func, *args)
        self._executor_jobs += 1
        future.add_done_callback(self._executor_job_done)
        return future

    def count_foreign_jobs(self, pending: PendingJobs) -> Callable[[], None]:
        """Not be quiet while ``pending()`` is above zero; returns its disposer."""
        self._foreign_jobs.append(pending)
        return lambda: self._foreign_jobs.remove(pending)

    async def wait_quiet(self) -> None:
        """Return when no callback is ready and no counted thread has an answer due; no clock moves."""
        self._turns = 0
        waiter = self.create_future()
        self._quiet_waiters.append(waiter)
        await waiter

    def _executor_job_done(self, _: asyncio.Future[_T]) -> None:
        self._executor_jobs -= 1

    def _when_busy(self) -> None:
        self._turns += 1
        self._waited_s = 0.0
        if self._turns >= TURNS_WITHOUT_QUIET:
            self._turns = 0
            self._stuck(f"the loop has not come to rest in {TURNS_WITHOUT_QUIET} turns")

    def _when_quiet(self) -> float | None:
        """Return how long to wait for real, or ``None`` when a waiter was told that all is quiet."""
        foreign = sum(pending() for pending in self._foreign_jobs)
        jobs = self._executor_jobs + foreign
        if not jobs:
            if waiter := self._next_waiter():
                waiter.set_result(None)
                return None
            if not self._may_be_woken():
                self._stuck("nothing is ready to run, and nobody moves the clock")
                return None
        if self._waited_s >= self.patience_s:
            waited_for = f"{jobs} job(s) in threads" if jobs else "threads or I/O"
            self._stuck(f"nothing came from {waited_for} in {self.patience_s:g} real seconds")
            return None
        step_s = POLL_S if foreign else max(POLL_S, self.patience_s - self._waited_s)
        self._waited_s += step_s
        return step_s

    def _next_waiter(self) -> asyncio.Future[None] | None:
        while self._quiet_waiters:
            waiter = self._quiet_waiters.popleft()
            if not waiter.done():
                self._turns, self._waited_s = 0, 0.0
                return waiter
        return None

    def _may_be_woken(self) -> bool:
        """Whether another thread, a socket or a child process could still give the loop work, or just did."""
        if threading.active_count() > 1 or len(self._quiet_selector.get_map()) > _OWN_DESCRIPTORS:
            return True
        return self._quiet_selector.has_news()  # of a thread that ended behind the last look

    def _stuck(self, what: str) -> None:
        """Fail the journey that waits; if none does, the whole run: there is no task to blame."""
        error = StuckError(render_stuck(what, self, self.next_timer()))
        if (waiter := self._next_waiter()) is None:
            self._waited_s = 0.0  # the clean-up that follows has patience of its own
            raise error
        waiter.set_exception(error)
