"""A stored session's log read from SQLite page by page, when somebody touches it.

It stands on a reader of its own for each page, so it never waits for what the store writes, and holds nothing open.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, overload

from schedule_sm.stores.errors import StoreIOError
from schedule_sm.stores.protocol import StoredEvent
from schedule_sm.stores.sqlite_reader import SqliteReader

PAGE: Final = 1_024
"""So many events are read at once: about two milliseconds of the event loop's time."""


class SqlitePages(Sequence[StoredEvent]):
    """The first ``length`` events of a session; they are durable, so that each page is read once and kept."""

    def __init__(self, path: Path, session_id: str, length: int) -> None:
        """Read the file at ``path`` when it comes to that."""
        self._path = path
        self._inode = path.stat().st_ino
        self._session_id = session_id
        self._length = length
        self._pages: dict[int, list[StoredEvent]] = {}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, position: int) -> StoredEvent: ...

    @overload
    def __getitem__(self, position: slice) -> list[StoredEvent]: ...

    def __getitem__(self, position: int | slice) -> StoredEvent | list[StoredEvent]:
        """Return one event, or some.

        Raises:
            StoreError: if the file cannot be read any more, or lacks one of them.
            IndexError: outside the log.
        """
        if isinstance(position, slice):
            return [self[seq] for seq in range(*position.indices(self._length))]
        number, place = divmod(range(self._length)[position], PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._read(number * PAGE)
        return page[place]

    def _read(self, first: int) -> list[StoredEvent]:
        end = min(first + PAGE, self._length)
        with SqliteReader(self._path) as reader:
            if self._path.stat().st_ino != self._inode:
                raise StoreIOError(str(self._path), "another program has replaced it")
            page = list(islice(reader.events(self._session_id, first - 1), end - first))
        if [event.seq for event in page] != list(range(first, end)):
            place = f"session {self._session_id!r}"
            raise StoreIOError(place, f"it should hold the events {first} to {end - 1} and does not")
        return page
