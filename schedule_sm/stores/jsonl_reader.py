"""Reading a JSONL store that may be in use by a running host: no lock taken, nothing written; ``sqlite_reader``'s twin.

A file only ever grows behind its last whole batch, so what was there at the first look at a session stays there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType

from schedule_sm.stores.errors import FolderMissingError
from schedule_sm.stores.jsonl_files import SessionFiles
from schedule_sm.stores.jsonl_folder import check_mark, session_files
from schedule_sm.stores.jsonl_lines import batches_of, last_batch
from schedule_sm.stores.protocol import SessionInfo, StoredEvent
from schedule_sm.stores.sqlite_file import fault_of


class JsonlReader:
    """What the folder held when each session was first looked at; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Look at the folder ``path``.

        Raises:
            StoreError: its class says what is wrong with it or its place.
        """
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FolderMissingError(str(self.path.parent))
        try:
            check_mark(self.path, for_reading=True)
        except OSError as error:
            raise fault_of(error, str(self.path)) from error
        self._files = SessionFiles(self.path)
        self._seen: dict[str, SessionInfo] = {}

    def sessions(self) -> list[SessionInfo]:
        """Return every session that has events, by id; O(folder).

        Raises:
            StoreError: DamagedLineError for the first file that is damaged.
        """
        try:
            paths = sorted(session_files(self.path))
        except OSError as error:
            raise fault_of(error, str(self.path)) from error
        found: list[SessionInfo] = []
        for path in paths:
            last = last_batch(path)
            if last is not None and last.info.next_seq:
                found.append(self._seen.setdefault(last.info.id, last.info))
        return sorted(found, key=lambda info: info.id)

    def session(self, session_id: str) -> SessionInfo:
        """Return one session.

        Raises:
            SessionUnknownError: with the nearest ids.
        """
        if session_id not in self._seen:
            last = last_batch(self._files.path(session_id), session_id)
            if last is None:
                raise self._files.unknown(session_id)
            self._seen[session_id] = last.info
        return self._seen[session_id]

    def events(
        self, session_id: str, after_seq: int = -1, *, types: Collection[str] | None = None
    ) -> Iterator[StoredEvent]:
        """Iterate over the session's events behind ``after_seq`` in order, of ``types`` only if given."""
        end = self.session(session_id).next_seq
        for batch in batches_of(self._files.path(session_id), session_id):
            for event in batch.events:
                if after_seq < event.seq < end and (types is None or event.type in types):
                    yield event

    def damage(self) -> list[str]:
        """Return nothing: whatever is wrong with a line is raised where it is read."""
        return []

    def close(self) -> None:
        """Do nothing; files are open only while they are read."""

    def __enter__(self) -> JsonlReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
