"""The fold: an incremental projection of one session's reminders, and the same fold from scratch.

Each event is consumed once. The projection never advances past a corrupt event, so every later read reports it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from schedule_sm.core.changes import Change, Entry
from schedule_sm.core.errors import ScheduleLogError
from schedule_sm.core.event_log import AppendOnlyLog, Event, EventLog, check_position, event_type, read_change
from schedule_sm.core.fields import SCHEDULE_CHANGE
from schedule_sm.core.rank_heap import RankHeap

if TYPE_CHECKING:
    from schedule_sm.core.records import AfterRecord

_READ_AT_ONCE: Final = 1_024
"""Many changes are recognised as text more cheaply than each; all of a long log at once would double its memory."""
_COMPACT_EVERY: Final = 64
"""So many reminders end between two looks at whether what is kept of them is worth dropping."""


@dataclass(frozen=True, slots=True)
class FoldedSchedules:
    """What a fold from scratch yields."""

    active: tuple[AfterRecord, ...]
    """Active records in create order."""
    seen_ids: tuple[str, ...]
    """Every id ever created, in create order."""


class ChangeReader:
    """Hands every change of a projection to one reader, once and in order.

    After the log shrank or was replaced, and on its first read, ``take`` reports a fresh start instead.
    """

    __slots__ = ("_is_fresh", "_projection", "_untaken")

    def __init__(self, projection: Projection) -> None:
        """Start unsynced: the first ``take`` is a fresh start."""
        self._projection = projection
        self._is_fresh = True
        self._untaken: list[Change] = []

    @property
    def is_behind(self) -> bool:
        """Whether ``take`` has anything new."""
        return self._is_fresh or bool(self._untaken)

    def take(self) -> list[Change] | None:
        """Return the changes since the last call, or ``None`` for a fresh start (read ``active`` instead)."""
        untaken, self._untaken = self._untaken, []
        if self._is_fresh:
            self._is_fresh = False
            return None
        return untaken

    def note(self, change: Change) -> None:
        """Keep ``change`` for the next ``take``; called by the projection alone."""
        if not self._is_fresh:
            self._untaken.append(change)

    def restart(self) -> None:
        """Forget what was kept: the reader has to begin anew; called by the projection alone."""
        self._is_fresh = True
        self._untaken = []

    def close(self) -> None:
        """Read no more, so that nothing is kept."""
        self._projection.drop_reader(self)


class Projection:
    """The reminders of one session, kept in step with its log; create, end and "earliest" cost O(log n)."""

    __slots__ = (
        "_created",
        "_ended",
        "_first",
        "_is_append_only",
        "_last",
        "_log",
        "_next_number",
        "_position",
        "_readers",
        "_seed_length",
        "_targets",
        "_unranked",
        "active",
        "generation",
    )

    def __init__(self, seed_length: object = 0) -> None:
        """Fold only what lies behind the first ``seed_length`` events (checked at the first sync)."""
        self._seed_length = seed_length
        self._readers: list[ChangeReader] = []
        self.generation = 0
        """Raised each time the log was found shrunken or replaced."""
        self._reset()

    def _reset(self) -> None:
        self._position: int | None = None  # where to read next; None until the seed length was checked
        self._log: EventLog | None = None
        self._is_append_only = False
        self._first: Event | None = None
        self._last: Event | None = None
        active: dict[str, Entry] = {}
        self.active = active
        """Active entries by id, in create order."""
        self._created: list[str] = []
        self._ended: set[str] = set()  # an active id is not kept a second time as one that was seen
        self._targets = RankHeap(active.__contains__)
        # not in the heap yet: most end before it is asked, and take no place in it
        self._unranked: list[Entry] = []
        self._next_number = 1

    # -- reading the log ----------------------------------------------------------------------------------

    def sync(self, events: EventLog, length: int | None = None, *, most: int | None = None) -> bool:
        """Consume what ``events`` holds beyond the last sync; O(new events).

        Args:
            events: the log.
            length: read only the first so many of its events, as if there were no more.
            most: consume no more than so many now, and rank no more; a longer log is taken in pieces.

        Returns:
            Whether the end was reached, and with ``most`` whether ``earliest`` is cheap.

        Raises:
            ScheduleLogError: at the first event that cannot be folded; nothing of it is kept, and every
                later call raises again until the log is mended.
        """
        if length is None and self._is_in_step(events):
            return most is None or self._rank(most)
        if self._position is not None and not self._is_continuation(events):
            self.generation += 1
            self._reset()
            for reader in self._readers:
                reader.restart()
        if length is None:
            length = len(events)
        if self._position is None:
            self._position = check_position(self._seed_length, length, what="seed length")
        if events is not self._log:
            self._log, self._is_append_only = events, isinstance(events, AppendOnlyLog)
        if self._position != length:
            self._consume(events, length if most is None else self._end_of_piece(events, length, most))
        return self._position == length and (most is None or self._rank(most))

    def _is_in_step(self, events: EventLog) -> bool:
        """Whether the last sync saw all of ``events``: by far the commonest case, so it is asked first."""
        if events is not self._log or len(events) != self._position:
            return False
        return self._is_append_only or (self._position > 0 and events[-1] is self._last)

    def _end_of_piece(self, events: EventLog, length: int, most: int) -> int:
        start = self._position or 0
        if not isinstance(events, AppendOnlyLog):
            return min(length, start + most)
        seqs = events.seqs_of(SCHEDULE_CHANGE, start, length, most)
        return length if len(seqs) < most else seqs[-1] + 1

    def _consume(self, events: EventLog, end: int) -> None:
        start = position = self._position or 0
        try:
            if isinstance(events, AppendOnlyLog):
                seqs = events.seqs_of(SCHEDULE_CHANGE, start, end)
                for first in range(0, len(seqs), _READ_AT_ONCE):
                    some = seqs[first : first + _READ_AT_ONCE]
                    for seq, change in zip(some, events.changes_of(some), strict=True):
                        position = seq
                        self._apply(change)
                        position = seq + 1
            else:
                for position in range(start, end):
                    event = events[position]
                    if event_type(event) == SCHEDULE_CHANGE:
                        self._apply(read_change(event.get("data")))
            position = end
        except ScheduleLogError as error:
            position = position if error.seq is None else error.seq  # it may say itself what is unread
            raise error.located(seq=position) from error
        finally:  # whatever it was, also a host's log that cannot be read
            if position > start:
                self._position = position
                if not self._is_append_only:
                    self._first, self._last = events[0], events[position - 1]

    def _is_continuation(self, events: EventLog) -> bool:
        """Whether ``events`` still begins with what was consumed, judged in O(1) for a log that only grows."""
        position = self._position or 0
        if len(events) < position:
            return False
        if self._is_append_only and events is self._log:
            return True
        if position == 0 or (self._last is None and not self._is_append_only):
            return True
        last = events[position - 1]
        if events is self._log or (last is self._last and events[0] is self._first):
            return last is self._last or last == self._last
        return self._replays_to_the_same(events, position)

    def _replays_to_the_same(self, events: EventLog, position: int) -> bool:
        """O(events): another sequence object of other event objects; a host may have copied or replaced the log."""
        other = Projection(self._seed_length)
        try:
            other.sync(events, position)
        except ScheduleLogError:
            return False
        return other._created == self._created and [entry.values for entry in other] == [
            entry.values for entry in self
        ]

    def check(self, change: Change) -> None:
        """Raise ScheduleLogError if ``change`` could not be folded next."""
        if isinstance(change, Entry):
            if self.is_used(change.id):
                _refuse(change)
        elif change.id not in self.active:
            _refuse(change)

    def _apply(self, change: Change) -> None:
        if type(change) is Entry:
            id_ = change.id
            if id_ in self.active or id_ in self._ended:
                _refuse(change)
            change.order = len(self._created)
            self._created.append(id_)
            self.active[id_] = change
            self._unranked.append(change)
        else:
            if self.active.pop(change.id, None) is None:
                _refuse(change)
            self._ended.add(change.id)
            if len(self._ended) % _COMPACT_EVERY == 0:
                self._compact()
        for reader in self._readers:
            reader.note(change)

    def _compact(self) -> None:
        """Drop what is kept of ended reminders for "earliest" if it is more than half; amortised O(1) for an end."""
        self._targets.compact(len(self.active))
        if len(self._unranked) > 2 * len(self.active):
            self._unranked = [entry for entry in self._unranked if entry.id in self.active]

    # -- what the fold yields -----------------------------------------------------------------------------

    def _rank(self, most: int) -> bool:
        """Put entries that still stand into the heap of targets, ``most`` looked at; whether all are in it."""
        for entry in self._unranked[-most:]:
            if entry.id in self.active:
                self._targets.push(entry.rank)
        del self._unranked[-most:]
        return not self._unranked

    def earliest(self) -> Entry | None:
        """Return the active entry with the earliest target, ties in create order; amortised O(log n)."""
        if self._unranked:
            self._rank(len(self._unranked))
        first = self._targets.first()
        return None if first is None else self.active[first[2]]

    def is_used(self, schedule_id: str) -> bool:
        """Whether a reminder of that id was ever created; such an id is never given again."""
        return schedule_id in self.active or schedule_id in self._ended

    def allocate_id(self) -> str:
        """Return the next free id: ``schedule-N``, N counting from the ids ever seen + 1 past any used one."""
        self._next_number = _free_number(self.is_used, max(self._next_number, len(self._created) + 1))
        return f"schedule-{self._next_number}"

    def folded(self) -> FoldedSchedules:
        """Return an immutable copy of the whole state; O(active + seen)."""
        return FoldedSchedules(tuple(entry.record for entry in self.active.values()), tuple(self._created))

    # -- readers of changes -------------------------------------------------------------------------------

    def open_reader(self) -> ChangeReader:
        """Return a reader of its own; close it when it is no longer read."""
        reader = ChangeReader(self)
        self._readers.append(reader)
        return reader

    def drop_reader(self, reader: ChangeReader) -> None:
        """Forget ``reader``; a second call does nothing."""
        if reader in self._readers:
            self._readers.remove(reader)

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the active entries in create order."""
        return iter(self.active.values())


def _refuse(change: Change) -> NoReturn:
    if isinstance(change, Entry):
        msg = f"id {change.id!r} is created a second time"
    else:
        msg = f"{change.operation} of {change.id!r}, which is not active"
    raise ScheduleLogError(msg)


def fold_schedule_events(events: EventLog, seed_length: object = 0) -> FoldedSchedules:
    """Fold a whole log from scratch, skipping its first ``seed_length`` events; O(events).

    Raises:
        ScheduleLogError: if an event cannot be folded, or ``seed_length`` is out of range.
    """
    projection = Projection(seed_length)
    projection.sync(events)
    return projection.folded()


def allocate_schedule_id(folded: FoldedSchedules) -> str:
    """Return the id that the next create gets: ``schedule-N``, N = ids ever seen + 1, past any used one."""
    seen = frozenset(folded.seen_ids)
    return f"schedule-{_free_number(seen.__contains__, len(seen) + 1)}"


def _free_number(is_used: Callable[[str], bool], number: int) -> int:
    while is_used(f"schedule-{number}"):
        number += 1
    return number
