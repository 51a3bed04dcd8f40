"""Reading a JSONL store that may be in use by a running host: no lock taken, nothing written; ``sqlite_reader``'s twin.

A file only ever grows behind its last whole batch, so what was there at the first look at a session stays there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType

from schedule_sm.stores.errors import FolderMissingError
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_files import SessionFiles
from schedule_sm.stores.jsonl_folder import check_mark, file_name, session_files
from schedule_sm.stores.jsonl_lines import DamagedLineError, batches_of
from schedule_sm.stores.jsonl_scan import scan_file
from schedule_sm.stores.protocol import SessionInfo, StoredEvent


class JsonlReader:
    """What the folder held when each session was first looked at; a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Look at the folder ``path``.

        Raises:
            StoreError: its class says what is wrong with it or its place.
        """
        self.path = Path(path).absolute()
        if not self.path.parent.is_dir():
            raise FolderMissingError(str(self.path.parent))
        try:
            check_mark(self.path, for_reading=True)
        except OSError as error:
            raise fault_of(error, str(self.path)) from error
        self._files = SessionFiles(self.path)
        self._seen: dict[str, SessionInfo] = {}

    def sessions(self, *, sound_only: bool = False) -> list[SessionInfo]:
        """Return every session that has events, by id, without those in damaged files if ``sound_only``; O(folder).

        Raises:
            StoreError: DamagedLineError for the first file that is damaged, unless ``sound_only``.
        """
        damaged = self._look()
        if damaged and not sound_only:
            raise damaged[0]
        return [info for _, info in sorted(self._seen.items()) if info.next_seq]

    def session(self, session_id: str) -> SessionInfo:
        """Return one session.

        Raises:
            SessionUnknownError: with ids like it.
        """
        if session_id not in self._seen:
            log = scan_file(self._files.path(session_id), session_id)
            if log is None:
                raise self._files.unknown(session_id)
            self._seen[session_id] = log.info
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
        """Return which files are damaged and where, one line each; O(folder)."""
        return [
            f"{Path(error.place).name} is damaged in line {error.line} at byte {error.offset}: {error.detail}"
            for error in self._look()
        ]

    def _look(self) -> list[DamagedLineError]:
        """See every session once, and return what is damaged."""
        damaged: list[DamagedLineError] = []
        try:
            for path in sorted(session_files(self.path)):
                try:
                    log = scan_file(path)
                except DamagedLineError as error:
                    damaged.append(error)
                    continue
                if log is None:
                    continue
                if path.name != file_name(log.info.id):
                    damaged.append(DamagedLineError(str(path), 1, 0, f"it holds session {log.info.id!r}"))
                    continue
                self._seen.setdefault(log.info.id, log.info)
        except OSError as error:
            raise fault_of(error, str(self.path)) from error
        return damaged

    def close(self) -> None:
        """Do nothing; files are open only while they are read."""

    def __enter__(self) -> JsonlReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
