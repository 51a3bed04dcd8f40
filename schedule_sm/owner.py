"""The owner: the asyncio loop that performs what the charts and the decision ask for, one drive at a time.

It does the I/O and reports what happened; it decides nothing. From the reservation to the append nothing awaits: that
window is one plain function in ``admission``.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from enum import Enum
from functools import partial

from schedule_sm.admission import Admission, Attempt
from schedule_sm.barrier import flush
from schedule_sm.clock import LOOP_CLOCK, Clock
from schedule_sm.core.charts import OwnerEvent
from schedule_sm.core.cursor import ALL_STEPS, OWNER, Cursor, Observers
from schedule_sm.core.decision import Deliver, Empty, WaitUntil, decide
from schedule_sm.core.deliveries import Deliveries
from schedule_sm.core.errors import ScheduleLogError, WouldDeadlockError
from schedule_sm.core.snapshot import OwnerSnapshot, reminder_snapshots, taken
from schedule_sm.diagnostics import WarningKind, warn, warn_unless_departed
from schedule_sm.edge_log import EdgeLog, OwnerObserver
from schedule_sm.host import Agent, Context
from schedule_sm.idle_wait import IdleWait
from schedule_sm.liveness import is_known_departed, is_live
from schedule_sm.take_back import take_back
from schedule_sm.target_timer import TargetTimer
from schedule_sm.transaction import Ticket, shared_session


class Trigger(Enum):
    """Where a wish to drive came from."""

    IDLE = "idle"
    """The idle wait ended, or the agent's status became idle."""
    OWN = "own"
    """What our own refused or failed attempt caused; tried once more and then dropped."""
    ELSEWHERE = "elsewhere"
    """Start, timer, management, the host."""


class ScheduleOwner:
    """Delivers the reminders of one live root agent; one per agent.

    ``start``, ``recompute``, ``request_stop`` and ``snapshot`` are synchronous and may be called from anywhere on the
    loop's thread, also from inside a host call.
    """

    __slots__ = (
        "__weakref__",
        "_admission",
        "_agent",
        "_ctx",
        "_cursor",
        "_deliveries",
        "_dirty",
        "_finished",
        "_idle",
        "_is_finished",
        "_observers",
        "_shared",
        "_sleep",
        "_task",
        "_ticket",
        "_timer",
        "_undo",
    )

    def __init__(
        self, ctx: Context, agent: Agent, *, clock: Clock | None = None, observers: Observers | None = None
    ) -> None:
        """Own the reminders of ``agent``'s session; nothing happens before ``start``."""
        self._ctx = ctx
        self._agent = agent
        clock = clock or LOOP_CLOCK
        self._observers = Observers(observers or ALL_STEPS)
        self._observers.add_for_setbacks(EdgeLog(agent.session.id, agent.id))
        self._shared = shared_session(agent.session)
        self._deliveries = Deliveries(self._shared.projection, self._observers)
        self._timer = TargetTimer(agent, clock, on_ended=self.recompute)
        self._cursor = Cursor(OWNER, agent.id, self._timer.now_ms, self._observers)
        self._admission = Admission(
            ctx,
            agent,
            self._shared,
            self._deliveries,
            read_clock=self._timer.read_clock,
            is_over=self._is_over,
        )
        self._idle = IdleWait(
            agent,
            clock,
            on_idle=self._idle_ended,
            on_failed=self._idle_failed,
            on_pause_over=self._pause_over,
        )
        self._dirty: set[Trigger] = set()
        # Futures and an Event made when waited for: two Events are an eighth of what an owner takes, and what an owner
        # takes is read anew for each of many that wake at one instant.
        self._sleep: asyncio.Future[None] | None = None
        self._is_finished = False
        self._finished: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._ticket: Ticket | None = None
        self._undo: list[Callable[[], None]] = []

    # -- what anybody may call ------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent whose reminders it delivers."""
        return self._agent

    @property
    def state(self) -> str:
        """The owner chart's state."""
        return self._cursor.state

    def start(self) -> None:
        """Begin; the first drive comes a loop turn later. Does nothing unless freshly made."""
        if self.state != "starting" or self._task is not None:
            return
        self._dirty.add(Trigger.ELSEWHERE)
        self._undo.append(self._agent.ctx.on("agent/status", self._on_status))
        self._undo.append(self._timer.watch())
        context = contextvars.copy_context()
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"schedule-sm owner {self._agent.id}", context=context
        )
        # also for a task that is cancelled before its first step, which runs no `finally`
        self._task.add_done_callback(self._task_ended, context=context)

    def recompute(self) -> None:
        """Ask for one more drive: a tool, the host or a test has reason to think that something changed."""
        self._trigger(Trigger.ELSEWHERE)

    def request_stop(self) -> None:
        """Begin to stop: no further host call but what is in flight. Does nothing once stopping or final."""
        if self._cursor.can("stop"):
            self._step("stop")
            self._leave()

    async def wait_stopped(self) -> None:
        """Return when the state is final and the drive, the idle wait and the agent's transactions have ended.

        Raises:
            WouldDeadlockError: from the owner's own task or a holder of the session's lane, which would wait for
                itself; call it from another task.
        """
        current = asyncio.current_task()
        if current is not None and (current is self._task or self._shared.lane.is_held_by(current)):
            msg = "wait_stopped() would wait for its own caller; call request_stop() here and wait in another task"
            raise WouldDeadlockError(msg)
        if not self._is_finished:
            self._finished = self._finished or asyncio.Event()
            await self._finished.wait()
        await self._idle.wait_ended()
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._shared.transactions_ended(self._agent)

    def snapshot(self) -> OwnerSnapshot:
        """Return what is known without a flush and a fold: unconfirmed, for people who ask why."""
        return OwnerSnapshot(
            state=self.state,
            since_ms=self._cursor.since_ms,
            last=taken(self._cursor.last),
            reminders=reminder_snapshots(self._deliveries),
        )

    def observe(self, observer: OwnerObserver) -> None:
        """Tell ``observer``'s own observer for this owner of every step from now on."""
        try:
            own = observer.for_owner(self._agent.session.id, self._agent.id, self._deliveries)
        except Exception as error:  # noqa: BLE001 - an observer must not change what is observed
            warn("owner", "an observer could not be made", self._agent, error)
        else:
            self._observers.add(own)

    # -- triggers -------------------------------------------------------------------------------------------

    def _trigger(self, source: Trigger) -> None:
        if self._task is None or self.state == "stopping" or self._cursor.is_final:
            return
        if self._admission.is_open:
            self._admission.triggered = True
            return
        if source is Trigger.ELSEWHERE:
            self._idle.end_pause()
        self._dirty.add(source)
        self._wake()

    def _wake(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    def _on_status(self, *news: object) -> None:
        status = news[-1] if news and isinstance(news[-1], str) else self._agent.status
        if status != "idle" or self._idle.is_open or self._admission.is_open:
            return
        if self.state not in ("blocked", "parked"):
            return
        if self._idle.is_fruitless:
            self._idle.pause()
        else:
            self._idle.end_pause()
            self._trigger(Trigger.IDLE)

    def _idle_ended(self) -> None:
        self._trigger(Trigger.IDLE)

    def _idle_failed(self, error: BaseException) -> None:
        what = "the wait for the agent to become idle failed"
        warn_unless_departed(self._ctx, "idle_wait", what, self._agent, error)
        if self.state == "blocked":
            self._step("idle_lost")

    def _pause_over(self) -> None:
        if self.state == "blocked" and not is_known_departed(self._ctx, self._agent):
            self._idle.open_now()
        else:
            self._trigger(Trigger.IDLE)

    # -- the loop -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # the creator of the agent finishes first
            while self.state != "stopping" and not self._cursor.is_final:
                if not self._dirty:
                    self._sleep = asyncio.get_running_loop().create_future()
                    await self._sleep
                    self._sleep = None
                    continue
                self._timer.cancel()
                self._step("wake")
                while self.state == "driving":
                    await self._drive()
                    await asyncio.sleep(0)  # a flush that never suspends must not starve the loop
            await self._idle.wait_ended()
        except asyncio.CancelledError:
            self.request_stop()
            raise
        except Exception as error:  # noqa: BLE001 - _fault logs it with its traceback
            self._fault("crashed", "owner", "the owner failed unexpectedly", error)
        finally:
            self._end()

    def _task_ended(self, _task: object) -> None:
        if not self._is_finished:
            self.request_stop()
            self._end()

    async def _drive(self) -> None:
        if self._is_over():
            self._dirty.clear()  # a registry that raises is asked again at the next trigger, not at once
            return
        self._ticket = self._shared.lane.request()
        try:
            if not await self._ticket.granted():
                return
            may_retry, by_idle = Trigger.OWN not in self._dirty, self._dirty == {Trigger.IDLE}
            self._dirty.clear()
            if self._is_over():
                return
            delivered = await self._drive_in_lane(may_retry=may_retry)
            refused = self.state == "blocked"
            self._idle.note_drive(by_idle=by_idle, delivered=delivered, refused=refused)
            if refused:
                self._idle.open()
        finally:
            self._ticket.leave()
            self._ticket = None

    async def _drive_in_lane(self, *, may_retry: bool) -> bool:
        """One pass: flush, fold, decide, act; whether a reminder was delivered."""
        if self._shared.fold_some() and not await self._go_on(self._shared.fold_some):
            return False
        now_ms = self._timer.read_clock()
        if self._deliveries.fall_due(now_ms) and not await self._go_on(
            partial(self._deliveries.fall_due, now_ms)
        ):
            return False
        self._deliveries.before_flush(now_ms)
        if not await self._flush("preflight", "the checkpoint was not confirmed") or not self._fold():
            return False
        now_ms = self._timer.read_clock()
        if self._deliveries.take_some(now_ms) and not await self._go_on(
            partial(self._deliveries.take_some, now_ms)
        ):
            return False
        if now_ms is None:
            self._host_failed()
            return False
        self._deliveries.after_flush(now_ms)
        if self.state != "driving":
            return False  # an observer of the cursors' steps asked to stop
        match decide(self._shared.projection, now_ms):
            case Empty():
                self._step("settle")
            case WaitUntil(target_ms):
                self._wait_for(target_ms)
            case Deliver(entry):
                attempt = self._admission.attempt(entry)
                return await self._conclude(attempt, may_retry=may_retry)
        return False

    async def _go_on(self, piece: Callable[[], bool]) -> bool:
        """Do the rest of what is long, a loop turn before each piece; whether the drive goes on after it."""
        is_left = True
        while is_left:
            await asyncio.sleep(0)
            if self._is_over():
                return False
            is_left = piece()
        return True

    async def _conclude(self, attempt: Attempt, *, may_retry: bool) -> bool:
        """Act on what the window yielded: faults first, then stopping and lost, then the outcome."""
        self._keep_triggers(attempt, may_retry=may_retry)
        match attempt:
            case Attempt.CORRUPT:
                self._fault("corrupt", "corrupt_log", "the log cannot be folded", self._admission.error)
            case Attempt.APPEND_FAILED:
                what = "the message is queued, but its dispatch could not be recorded"
                self._fault("append_failed", "append", what, self._admission.error)
            case Attempt.DELIVERED:
                if await self._flush("barrier", "the dispatch was not confirmed"):
                    self._step("again")
            case _ if not self._is_over():
                self._conclude_undelivered(attempt)
        return attempt is Attempt.DELIVERED

    def _conclude_undelivered(self, attempt: Attempt) -> None:
        match attempt:
            case Attempt.REFUSED:
                self._deliveries.refused(self._timer.now_ms)
                self._outcome("refused")
            case Attempt.NOT_DUE:
                target = self._shared.projection.earliest()
                self._wait_for(self._timer.now_ms if target is None else target.target_ms)
            case Attempt.GONE:
                self._step("again")
            case Attempt.ENQUEUE_FAILED:
                self._step("enqueue_failed")
            case Attempt.HOST_FAILED:
                self._host_failed()

    def _keep_triggers(self, attempt: Attempt, *, may_retry: bool) -> None:
        """What the attempt itself triggered counts in full if it went through, else once."""
        if self._admission.triggered:
            self._admission.triggered = False
            failed = (Attempt.REFUSED, Attempt.ENQUEUE_FAILED, Attempt.HOST_FAILED, Attempt.OVER)
            if attempt not in failed:
                self._trigger(Trigger.ELSEWHERE)
            elif may_retry:
                self._trigger(Trigger.OWN)

    async def _flush(self, kind: WarningKind, what: str) -> bool:
        """Flush and settle the cursors; whether the drive goes on after it."""
        outcome = await flush(self._ctx, self._agent.session)
        if outcome.confirmed:
            self._deliveries.flush_confirmed(self._timer.now_ms)
        else:
            self._deliveries.flush_unconfirmed(self._timer.now_ms)
            warn_unless_departed(self._ctx, kind, what, self._agent, outcome.error)
        if self._is_over():
            return False
        if not outcome.confirmed:
            self._step("unconfirmed")
        return outcome.confirmed

    def _fold(self) -> bool:
        try:
            self._shared.fold()
        except ScheduleLogError as error:
            self._fault("corrupt", "corrupt_log", "the log cannot be folded", error)
            return False
        return True

    # -- steps ----------------------------------------------------------------------------------------------

    def _step(self, event: OwnerEvent) -> None:
        self._cursor.step(event, self._timer.now_ms)

    def _outcome(self, event: OwnerEvent) -> None:
        """Step what a drive came to, unless an observer of the cursor's own step asked to stop meanwhile."""
        if self.state == "driving":
            self._step(event)

    def _is_over(self) -> bool:
        """Whether the drive ends here: stopping first, then no longer live, then a registry that raises."""
        cursor = self._cursor
        if cursor.state != "driving":
            return True
        try:
            live = is_live(self._ctx, self._agent)
        except Exception as error:  # noqa: BLE001 - a host call: parked, the next trigger retries
            warn("owner", "the agent registry failed", self._agent, error)
            self._host_failed()
            return True
        if cursor.state == "driving" and not live:
            self._step("lost")
            self._leave()
        return cursor.state != "driving"  # also if the registry itself has asked to stop, whatever it answers

    def _host_failed(self) -> None:
        self._deliveries.host_failed(self._timer.now_ms)
        self._outcome("host_failed")

    def _wait_for(self, target_ms: int) -> None:
        self._step("wait")
        if self.state == "waiting":  # no observer of the step has asked to stop
            self._timer.arm(target_ms)

    # -- the end --------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Entered stopping: give up every wait that is not a flush."""
        self._timer.cancel()
        self._idle.cancel()
        if self._ticket is not None:
            self._ticket.give_up_waiting()
        self._wake()
        if self._task is None:
            self._end()

    def _fault(self, event: OwnerEvent, kind: WarningKind, what: str, error: Exception | None) -> None:
        warn(kind, what, self._agent, error, level=logging.ERROR)
        if self._cursor.can(event):
            self._step(event)
        elif self._cursor.can("stop"):
            self._step("stop")
            self._step(event)
        self._let_go()

    def _let_go(self) -> None:
        self._timer.cancel()
        self._idle.cancel()
        self._deliveries.detach(self._timer.now_ms)

    def _end(self) -> None:
        """Nothing is in flight: detach every cursor and reach the final state."""
        self._let_go()
        take_back(self._undo, "a subscription", self._agent)
        if self.state == "stopping":
            self._step("drained")
        self._is_finished = True
        if self._finished is not None:
            self._finished.set()
