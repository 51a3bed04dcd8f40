"""``travel``: a pytest fixture that moves the wall clock and the event loop's clock, together or apart.

No test waits for real. In a ``conftest.py`` of any project (pytest >= 8.4, pytest-asyncio >= 1.4, time-machine)::

    pytest_plugins = ["schedule_sm.testing.travel"]

and in a test::

    @pytest.mark.asyncio
    async def test_reminder_comes_after_a_nap(travel):
        ...
        await travel(60)               # both clocks: every timer due on the way runs, at its own time
        await travel.suspend(8 * 3600) # laptop sleep: the wall clock goes on, the loop's clock stands still
        await travel.jump(-3600)       # the wall clock alone: NTP, an operator, a wrong boot clock
        await travel.rollback(5)       # the same, backwards
        await travel.settle()          # no clock moves; returns when nothing is ready to run

Only tests that ask for ``travel``, directly or through another fixture, get the virtual loop. Override the fixture
``travel_start`` for another beginning. Code under test must read ``loop.time()`` and the wall clock: time-machine does
not patch ``time.monotonic``. Clocks move only here; a test that awaits a timer without travelling fails with
``StuckError`` and a list of what each task awaits.

Threads: jobs of ``run_in_executor`` and ``asyncio.to_thread`` are waited for in real time. A thread of your own that
answers by ``call_soon_threadsafe`` is invisible to the loop; tell of it with ``travel.count_jobs(lambda: store.jobs)``
or wait for its effect with ``await travel.until(lambda: ...)``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

import pytest
import time_machine

from schedule_sm.testing.stuck_report import StuckError
from schedule_sm.testing.virtual_loop import PendingJobs, VirtualLoop

__all__ = ["START", "StuckError", "Travel", "VirtualLoop", "run_virtual", "travel", "travelling"]

_T = TypeVar("_T")
_LoopFactories: TypeAlias = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""Where the wall clock stands when a test begins."""
STOPS_IN_PLACE: Final = 100_000
"""Timers run within one microsecond of loop time before a journey counts as getting nowhere."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Travel:
    """Moves the two clocks; one journey at a time."""

    def __init__(self, traveller: time_machine.Traveller, wall_us: int) -> None:
        """Take over ``traveller``, which stands still at ``wall_us`` microseconds since 1970."""
        self._traveller = traveller
        self._wall_us = wall_us
        self._loop: VirtualLoop | None = None
        self._since: float = 0.0
        self._since_wall_us = wall_us
        self._travelling = False

    @property
    def now_ms(self) -> int:
        """The wall clock in whole milliseconds since 1970, rounded down."""
        return self._wall_us // 1000

    @property
    def loop(self) -> VirtualLoop:
        """The running virtual loop.

        Raises:
            RuntimeError: if the running loop is another one.
        """
        running = asyncio.get_running_loop()
        if not isinstance(running, VirtualLoop):
            raise RuntimeError(  # noqa: TRY004 - the state of the test session, not the type of an argument
                f"`travel` needs the virtual loop, and {running!r} is running: name `travel` among the fixtures of the"
                " test (getfixturevalue comes too late), use pytest-asyncio >= 1.4, or run_virtual()"
            )
        if running is not self._loop:
            self._loop = running
            self._anchor(running)
        return running

    async def __call__(self, seconds: float) -> None:
        """Move both clocks by ``seconds``, stopping at each timer on the way; settle at the end.

        Raises:
            ValueError: if ``seconds`` is negative or not finite; see ``rollback``.
            StuckError: if timers without end keep the clock in place.
        """
        _check_duration(seconds)
        with self._journey() as loop:
            end = loop.time() + seconds
            await loop.wait_quiet()
            stops, place = 0, loop.time()
            while (when := loop.next_timer()) is not None and when <= end:
                self._move_both(loop, when)
                await loop.wait_quiet()
                stops = stops + 1 if when - place < 1e-6 else 0
                place = place if stops else when
                if stops > STOPS_IN_PLACE:
                    raise StuckError(
                        f"{stops} timers ran within a microsecond of loop time {when!r}: no way ahead"
                    )
            self._move_both(loop, max(end, loop.time()))
            await loop.wait_quiet()

    async def jump(self, seconds: float) -> None:
        """Move the wall clock alone, forwards or backwards, in one step; no timer becomes due by it."""
        if not math.isfinite(seconds):
            raise ValueError(f"seconds must be finite, not {seconds!r}")
        with self._journey() as loop:
            await loop.wait_quiet()
            self._set_wall(self._wall_us + round(seconds * 1e6))
            self._anchor(loop)
            await loop.wait_quiet()

    async def suspend(self, seconds: float) -> None:
        """Sleep as a laptop does: the wall clock goes on, the loop's clock stands still."""
        _check_duration(seconds)
        await self.jump(seconds)

    async def rollback(self, seconds: float) -> None:
        """Set the wall clock back by ``seconds``; the loop's clock stands still."""
        _check_duration(seconds)
        await self.jump(-seconds)

    async def settle(self) -> None:
        """Return when nothing is ready to run and no counted job in a thread is open; no clock moves."""
        with self._journey() as loop:
            await loop.wait_quiet()

    async def to_next_timer(self) -> float:
        """Travel to the earliest timer and run it; returns the seconds travelled.

        Raises:
            StuckError: if no timer is armed.
        """
        await self.settle()
        when = self.loop.next_timer()
        if when is None:
            raise StuckError("no timer is armed")
        ahead_s = when - self.loop.time()
        await self(ahead_s)
        return ahead_s

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait in real time, no clock moving, until ``condition()`` holds: for threads that cannot be counted.

        Raises:
            StuckError: if it does not hold after the loop's ``patience_s`` real seconds.
        """
        dispose = self.loop.count_foreign_jobs(lambda: 0 if condition() else 1)
        try:
            while not condition():
                await self.settle()
        finally:
            dispose()

    def count_jobs(self, pending: PendingJobs) -> Callable[[], None]:
        """Wait in real time while ``pending()`` jobs are open in a thread foreign to the loop; returns its disposer."""
        return self.loop.count_foreign_jobs(pending)

    @contextmanager
    def _journey(self) -> Iterator[VirtualLoop]:
        if self._travelling:
            raise RuntimeError(
                "two tasks travel at once: only one may move the clocks, usually the test itself"
            )
        loop = self.loop
        self._travelling = True
        try:
            yield loop
        finally:
            self._travelling = False

    def _anchor(self, loop: VirtualLoop) -> None:
        """Count the wall clock from here: sums of rounded steps would drift."""
        self._since, self._since_wall_us = loop.time(), self._wall_us

    def _move_both(self, loop: VirtualLoop, loop_time: float) -> None:
        loop.move_to(loop_time)
        self._set_wall(self._since_wall_us + round((loop_time - self._since) * 1e6))

    def _set_wall(self, wall_us: int) -> None:
        self._traveller.shift(timedelta(microseconds=wall_us - self._wall_us))
        self._wall_us = wall_us


def _check_duration(seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(
            f"seconds must be finite and not negative, not {seconds!r}; to go back, use rollback()"
        )


@contextmanager
def travelling(start: datetime = START) -> Iterator[Travel]:
    """Freeze the wall clock at ``start`` (aware) and yield its ``Travel``; the time zone stays as it is."""
    wall_us = (start - _EPOCH) // _MICROSECOND
    # An integer: for a datetime, time-machine would also set the process's time zone.
    with time_machine.travel(0, tick=False) as traveller:
        traveller.shift(timedelta(microseconds=wall_us))
        yield Travel(traveller, wall_us)


def run_virtual(main: Callable[[Travel], Coroutine[Any, Any, _T]], start: datetime = START) -> _T:
    """Run ``main(travel)`` on a fresh virtual loop and return its result: one loop per Hypothesis example."""
    with travelling(start) as clocks, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(clocks))


@pytest.fixture
def travel_start() -> datetime:
    """Where the wall clock stands when the test begins; override it in a module or a ``conftest.py``."""
    return START


@pytest.fixture
def travel(travel_start: datetime) -> Iterator[Travel]:
    """Move the wall clock and the loop's clock: see ``schedule_sm.testing.travel``."""
    with travelling(travel_start) as clocks:
        yield clocks


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Generator[None, _LoopFactories | None, _LoopFactories]:
    """Give the virtual loop to tests that ask for ``travel``, and to no others."""
    others = yield
    if "travel" in getattr(item, "fixturenames", ()):
        return {"virtual": VirtualLoop}
    return others if others is not None else {"default": asyncio.new_event_loop}
