"""One FIFO lane per session: it serialises a tool's preflight … barrier and one drive of the owner.

A tool's transaction is a task of its own that holds the lane to its end, whatever becomes of its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import AppendOnlyLog
from schedule_sm.core.projection import Projection
from schedule_sm.host import Agent, Session

FOLDED_AT_ONCE: Final = 256
"""So many changes are folded before the event loop gets a turn: half a millisecond of them, recognised as text."""

DECODED_AT_ONCE: Final = 128
"""So many events of a host's own log, each decoded and checked: as long."""

UNANSWERED: Final = object()
"""The answer of a transaction of which nobody knows how it ended."""


class Ticket:
    """A place in a lane: waiting, holding or left."""

    __slots__ = ("_granted", "_lane", "_waiter", "holder_task", "next")

    def __init__(self, lane: Lane) -> None:
        """Wait for ``lane``."""
        self._lane = lane
        self._granted: bool | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.holder_task: asyncio.Task[Any] | None = None
        self.next: Ticket | None = None
        """The one behind it in the queue; the lane's alone."""

    @property
    def is_waiting(self) -> bool:
        """Whether it is still in the queue."""
        return self._granted is None

    def grant(self) -> None:
        """Hand the lane over; called by the lane alone."""
        self._end_waiting(granted=True)

    async def granted(self) -> bool:
        """Wait for the lane; ``False`` if the place was given up meanwhile. Its task then is the holder."""
        if self._granted is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._granted:
            self.holder_task = asyncio.current_task()
            return True
        return False

    def give_up_waiting(self) -> None:
        """Leave the queue if still in it; a holder stays."""
        if self.is_waiting:
            self._end_waiting(granted=False)

    def _end_waiting(self, *, granted: bool) -> None:
        self._granted = granted
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def leave(self) -> None:
        """Leave the queue, or free the lane for the next in it; harmless when called twice."""
        self.give_up_waiting()
        self._lane.freed(self)


class Lane:
    """FIFO: places are granted in the order of the requests, one at a time, with no overtaking."""

    __slots__ = ("_holder", "_last")

    def __init__(self) -> None:
        """Start free."""
        self._holder: Ticket | None = None
        # the queue is linked: an empty deque would take 760 bytes in each session
        self._last: Ticket | None = None

    def request(self) -> Ticket:
        """Return a place in the queue, at once granted if the lane is free."""
        ticket, last = Ticket(self), self._last
        self._last = ticket
        if last is None:
            self._grant(ticket)
        else:
            last.next = ticket
        return ticket

    def freed(self, ticket: Ticket) -> None:
        """Pass the lane on if ``ticket`` held it."""
        if self._holder is ticket:
            following, ticket.next = ticket.next, None
            while following is not None and not following.is_waiting:
                following = following.next
            self._grant(following)

    def _grant(self, ticket: Ticket | None) -> None:
        self._holder = ticket
        if ticket is None:
            self._last = None
        else:
            ticket.grant()

    def is_held_by(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether ``task`` itself holds the lane, so that it would wait for itself."""
        return task is not None and self._holder is not None and self._holder.holder_task is task


class Transaction:
    """One tool call's work under the lane."""

    __slots__ = ("agent", "answer", "is_abandoned", "schedule_id", "task", "ticket")

    def __init__(self, agent: Agent, ticket: Ticket) -> None:
        """Work for ``agent`` once ``ticket`` is granted."""
        self.agent = agent
        self.ticket = ticket
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """What the work yielded; ``UNANSWERED`` if it was cut off or took too long."""
        self.task: asyncio.Task[None] | None = None
        self.is_abandoned = False
        """The mark that is read right before the append: set, nothing is appended any more."""
        self.schedule_id: str | None = None
        """The reminder it is about, once known."""

    def answer_with(self, value: Any) -> None:
        """Tell the caller, if it still waits and was told nothing before."""
        if not self.answer.done():
            self.answer.set_result(value)

    def abandon(self) -> None:
        """Set the mark; one that only waits for the lane leaves the queue without a host call."""
        self.is_abandoned = True
        self.ticket.give_up_waiting()


class SharedSession:
    """What the tools and owners of one session share: its lane, its projection and the running transactions."""

    __slots__ = ("__weakref__", "_transactions", "lane", "projection", "session")

    def __init__(self, session: Session) -> None:
        """Fold ``session`` from its seed length on."""
        self.session = session
        self.lane = Lane()
        seed_length: object = getattr(getattr(session, "header", None), "seed_length", None)
        self.projection = Projection(0 if seed_length is None else seed_length)
        self._transactions: set[Transaction] = set()

    def fold(self) -> Projection:
        """Bring the projection into step with the log and return it; O(new events).

        Raises:
            ScheduleLogError: with session and seq, at every call until the log is mended.
        """
        try:
            self.projection.sync(self.session.events)
        except ScheduleLogError as error:
            raise error.located(session_id=self.session.id) from error
        return self.projection

    def fold_some(self) -> bool:
        """Consume a piece of a long backlog ahead of a flush; whether a longer one is left.

        Nothing is decided from it, and a log that cannot be folded is left for ``fold`` to report.
        """
        events = self.session.events
        most = FOLDED_AT_ONCE if isinstance(events, AppendOnlyLog) else DECODED_AT_ONCE
        try:
            return not self.projection.sync(events, most=most)
        except ScheduleLogError:
            return False

    def begin(self, agent: Agent, work: Callable[[Transaction], Awaitable[Any]], refusal: Any) -> Transaction:
        """Queue ``work`` for the lane now, in a task of its own; ``refusal`` is its answer if it never gets it."""
        transaction = Transaction(agent, self.lane.request())
        self._transactions.add(transaction)
        transaction.task = asyncio.get_running_loop().create_task(
            self._hold(transaction, work, refusal), name=f"schedule-sm transaction {agent.id}"
        )
        # also for a task that is cancelled before its first step, which runs no `finally`
        transaction.task.add_done_callback(lambda _task: self._ended(transaction))
        return transaction

    async def _hold(
        self, transaction: Transaction, work: Callable[[Transaction], Awaitable[Any]], refusal: Any
    ) -> None:
        try:
            if not await transaction.ticket.granted() or transaction.is_abandoned:
                transaction.answer_with(refusal)
            else:
                # before the lane is freed: the caller goes on ahead of the drive that waits for it
                transaction.answer_with(await work(transaction))
        finally:
            self._ended(transaction)

    def _ended(self, transaction: Transaction) -> None:
        transaction.answer_with(UNANSWERED)
        transaction.ticket.leave()
        self._transactions.discard(transaction)

    def transactions_of(self, agent: Agent) -> list[Transaction]:
        """Return the running transactions of ``agent``."""
        return [transaction for transaction in self._transactions if transaction.agent is agent]

    async def transactions_ended(self, agent: Agent) -> None:
        """Wait for the transactions of ``agent`` that run now."""
        running = {t.task for t in self.transactions_of(agent) if t.task is not None}
        if running:
            await asyncio.wait(running)


_SHARED: WeakValueDictionary[int, SharedSession] = WeakValueDictionary()


def shared_session(session: Session) -> SharedSession:
    """Return what is shared about this exact session object, for as long as somebody holds it."""
    shared = _SHARED.get(id(session))
    if shared is None or shared.session is not session:
        shared = _SHARED[id(session)] = SharedSession(session)
    return shared
