"""The owner's one open wait for its agent to become idle, and the pause that bounds how often it may drive.

A resource beside the chart, not a state: it outlives ``blocked``, and its end is a trigger in every state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from schedule_sm.barrier import is_cancelled_itself
from schedule_sm.clock import Clock, Timer
from schedule_sm.host import Agent

FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 5_000
FRUITLESS_DRIVES: Final = 20
"""So many idle drives in a row that delivered nothing are let through before the pause holds them back."""


class IdleWait:
    """At most one ``when_idle()`` at a time; all methods but ``wait_ended`` are synchronous."""

    __slots__ = (
        "_agent",
        "_clock",
        "_fruitless",
        "_on_failed",
        "_on_idle",
        "_on_pause_over",
        "_pause",
        "_pause_ms",
        "_returned_at_once",
        "_task",
    )

    def __init__(
        self,
        agent: Agent,
        clock: Clock,
        *,
        on_idle: Callable[[], None],
        on_failed: Callable[[BaseException], None],
        on_pause_over: Callable[[], None],
    ) -> None:
        """Report the end of a wait, its failure, and the end of a pause to the owner."""
        self._agent = agent
        self._clock = clock
        self._on_idle = on_idle
        self._on_failed = on_failed
        self._on_pause_over = on_pause_over
        self._task: asyncio.Task[None] | None = None
        self._pause: Timer | None = None
        self._pause_ms = FIRST_PAUSE_MS
        self._returned_at_once = False
        self._fruitless = 0

    @property
    def is_open(self) -> bool:
        """Whether a wait is open."""
        return self._task is not None and not self._task.done()

    @property
    def must_pause(self) -> bool:
        """Whether the next wait is to be held back: the last one never suspended, or too many drives were fruitless."""
        return self._returned_at_once or self.is_fruitless

    @property
    def is_fruitless(self) -> bool:
        """Whether so many idle drives were fruitless that the agent's idle status is held back too."""
        return self._fruitless >= FRUITLESS_DRIVES

    def note_drive(self, *, by_idle: bool, delivered: bool, refused: bool) -> None:
        """Count fruitless drives that idle news alone caused; a delivery clears the count and the pause."""
        if not refused:
            self._returned_at_once = False  # it counts only if the very next attempt is refused again
        if delivered:
            self._fruitless = 0
            self._pause_ms = FIRST_PAUSE_MS
        elif by_idle:
            self._fruitless += 1

    def open(self) -> None:
        """Open the one wait, after the pause where one is due; does nothing while one is open or due."""
        if self.is_open or self._pause is not None:
            return
        if self.must_pause:
            self.pause()
        else:
            self.open_now()

    def open_now(self) -> None:
        """Open the one wait without a pause."""
        if not self.is_open:
            self._task = asyncio.get_running_loop().create_task(
                self._wait(), name=f"schedule-sm idle wait {self._agent.id}"
            )

    def pause(self) -> None:
        """Hold idle news back for the pause, which doubles each time."""
        if self._pause is None:
            self._pause = self._clock.call_later(self._pause_ms, self._pause_over)
            self._pause_ms = min(self._pause_ms * 2, LONGEST_PAUSE_MS)

    def end_pause(self) -> None:
        """Any other trigger ends the pause."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def cancel(self) -> None:
        """Stop cancels the pause and the wait."""
        self.end_pause()
        if self._task is not None:
            self._task.cancel()

    async def wait_ended(self) -> None:
        """Return when no wait is open any more."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    def _pause_over(self) -> None:
        self._pause = None
        self._on_pause_over()

    def _failed(self, error: BaseException) -> None:
        self._task = None
        self._on_failed(error)

    async def _wait(self) -> None:
        turned = False

        def note_turn() -> None:
            nonlocal turned
            turned = True

        handle = asyncio.get_running_loop().call_soon(note_turn)
        try:
            await self._agent.when_idle()
        except asyncio.CancelledError as error:
            if is_cancelled_itself():
                raise
            self._failed(error)  # the host cancelled what its agent waited for, not this task
            return
        except Exception as error:  # noqa: BLE001 - the owner logs it and steps its chart
            self._failed(error)
            return
        finally:
            handle.cancel()
        self._returned_at_once = not turned
        if not self.must_pause:
            self._pause_ms = FIRST_PAUSE_MS
        self._task = None
        self._on_idle()
