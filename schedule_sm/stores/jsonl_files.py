"""What acquisitions and appends do to the files of a JSONL store; it runs in the store's thread.

The fence (epoch, expected seq) is decided here. A group of requests is written first and then synced file by file, so
that one journal commit of the file system serves many. A file knows how much of it is certain: after a fault the rest
is cut off and written anew, because the kernel may have dropped what it could not sync.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from schedule_sm.stores.errors import SessionUnknownError, StoreError
from schedule_sm.stores.failpoints import failpoint
from schedule_sm.stores.faults import fault_of
from schedule_sm.stores.jsonl_bytes import put, sync
from schedule_sm.stores.jsonl_folder import file_name, likely_id, session_files, sync_folder
from schedule_sm.stores.jsonl_index import is_worth_an_index
from schedule_sm.stores.jsonl_lines import DamagedLineError, batches_of, event_lines, meta_line
from schedule_sm.stores.jsonl_scan import ScannedLog, index_file, scan_file
from schedule_sm.stores.protocol import Append, OpenedLog, Outcome, SessionInfo, StoredEvent
from schedule_sm.stores.similar_ids import nearest

INDEXED_AT_ONCE: Final = 1 << 24
"""Bytes of files that are indexed at most after a group that lets many sessions go: a tenth of a second's work."""

GROUP_FILES: Final = 64
"""Files written before they are synced: enough to share a journal commit, far below any limit on open files."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take a session over."""

    session_id: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class HeldAppend:
    """An append, and whether its writer held the session when it was queued."""

    append: Append
    is_held: bool

    @property
    def session_id(self) -> str:
        """The session it is for."""
        return self.append.session_id


Request: TypeAlias = Acquire | HeldAppend
Answer: TypeAlias = SessionInfo | Outcome | StoreError


@dataclass(frozen=True, slots=True)
class _State:
    """A session as far as it is certain."""

    info: SessionInfo
    size: int
    """Bytes of its file that hold it."""
    inode: int | None = None
    """Which file that is; ``None`` before it was written to."""
    indexed_size: int = 0
    """How many of those bytes its index covers, or would if it could have been written."""


@dataclass(frozen=True, slots=True)
class _Write:
    """Bytes to be put ``at`` an offset of a file of which ``keep`` bytes are good."""

    state: _State
    answer: Answer
    data: bytes
    keep: int
    at: int
    is_new: bool = False
    append: Append | None = None
    """What it carries out, unless that is an acquisition."""


class _Open(NamedTuple):
    """A file that was written and not synced."""

    position: int
    write: _Write
    descriptor: int


class SessionFiles:
    """The files of one folder, written by nobody else while the folder's lock is held."""

    def __init__(self, folder: Path) -> None:
        """Work in ``folder``."""
        self.folder = folder
        self._states: dict[str, _State] = {}
        self._waking: dict[str, SessionInfo] | None = None  # filled by the first question for it
        self._just_read: dict[str, ScannedLog] = {}  # by an acquisition, for the read that follows it
        self._let_go: dict[str, int] = {}  # how long the files are that have grown by much
        self.syncs = 0

    # -- writing --------------------------------------------------------------------------------------------

    def commit(self, requests: Sequence[Request]) -> list[Answer]:
        """Carry out ``requests`` in order and answer each; a fault of one session is no other's."""
        answers: dict[int, Answer] = {}
        group: dict[str, _Open] = {}
        for position, request in enumerate(requests):
            if request.session_id in group or len(group) == GROUP_FILES:
                self._sync(group, answers)
            try:
                planned = self._plan(request)
                if isinstance(planned, _Write):
                    failpoint("insert.before")
                    group[request.session_id] = self._put(position, request.session_id, planned)
                    failpoint("insert.after")
                else:
                    answers[position] = planned
            except Exception as error:  # noqa: BLE001 - whatever it was, every caller gets an answer: not committed
                answers[position] = fault_of(error, str(self.folder))
            if isinstance(request, HeldAppend) and request.session_id not in group:
                self._forget(request.append, answers[position])
        self._sync(group, answers)
        return [answers[position] for position in range(len(requests))]

    def _put(self, position: int, session_id: str, write: _Write) -> _Open:
        known, path = write.state.inode, self.path(session_id)
        descriptor = put(path, write.data, write.at, write.keep, is_new=write.is_new, inode=known)
        state = replace(write.state, inode=os.fstat(descriptor).st_ino)
        return _Open(position, replace(write, state=state), descriptor)

    def _sync(self, group: dict[str, _Open], answers: dict[int, Answer]) -> None:
        """Make durable what was written, and only then let it count."""
        if not group:
            return
        failpoint("commit.before")
        name_fault: StoreError | None = None
        if any(written.write.is_new for written in group.values()):
            try:
                sync_folder(self.folder)
            except OSError as error:
                name_fault = fault_of(error, str(self.folder))
        for session_id, (position, write, descriptor) in group.items():
            fault = name_fault if write.is_new else None
            try:
                sync(descriptor, write.keep)
            except OSError as error:
                fault = fault_of(error, str(self.folder))
            if fault is None:
                self._note(session_id, write.state)
            answers[position] = fault or write.answer
            if write.append is not None:
                self._forget(write.append, answers[position])
        self.syncs += 1
        group.clear()
        failpoint("commit.after")

    def _forget(self, append: Append, answer: Answer) -> None:
        """Keep nothing of a session that was let go: it is read anew by the next that asks."""
        state = self._states.get(append.session_id)
        is_let_go = append.let_go and (answer is Outcome.COMMITTED or not append.events)
        if is_let_go and state is not None and state.info.epoch == append.epoch:
            if is_worth_an_index(state.size, state.indexed_size):
                self._let_go[append.session_id] = state.size
            del self._states[append.session_id]

    def index_let_go(self) -> None:
        """Leave an index to whoever opens next what was let go; what is too much to do now he does himself.

        It raises nothing: an index is never needed.
        """
        left = INDEXED_AT_ONCE
        while self._let_go:
            session_id, size = self._let_go.popitem()
            left -= size
            if left < 0:
                continue
            path = self.path(session_id)
            try:
                index_file(path, session_id, size)
            except Exception as error:  # noqa: BLE001 - the session is closed, nobody is there to be told
                _logger.info("the index of %s was not written: %r", path, error)

    def _note(self, session_id: str, state: _State) -> None:
        self._states[session_id] = state
        if self._waking is not None:
            self._waking.pop(session_id, None)
            if state.info.wake_at is not None:
                self._waking[session_id] = state.info

    # -- deciding -------------------------------------------------------------------------------------------

    def _plan(self, request: Request) -> _Write | Answer:
        if isinstance(request, Acquire):
            return self._plan_acquire(request)
        return self._plan_append(request.append, is_held=request.is_held)

    def _plan_acquire(self, request: Acquire) -> _Write:
        """The last batch is written once more: its own sync may have failed in an earlier process."""
        log = scan_file(self.path(request.session_id), request.session_id)
        if log is None:
            info = SessionInfo(request.session_id, 0, None, 1, 0, None, created_at=request.now_ms)
            data = meta_line(info)
            return _Write(_State(info, len(data)), info, data, keep=0, at=0, is_new=True)
        self._just_read[request.session_id] = log
        indexed_size = log.keep_index(self.path(request.session_id))
        info = replace(log.info, epoch=log.info.epoch + 1)
        start, keep = log.last_start, log.last_end
        with self.path(request.session_id).open("rb") as file:
            file.seek(start)
            data = file.read(keep - start) + meta_line(info)
        state = _State(info, start + len(data), indexed_size=indexed_size)
        return _Write(state, info, data, keep=keep, at=start, is_new=not info.next_seq)

    def _plan_append(self, append: Append, *, is_held: bool) -> _Write | Outcome:
        self._just_read.pop(append.session_id, None)
        state = self._state(append.session_id)
        if state is None or state.info.epoch != append.epoch:
            return Outcome.FENCED
        info = state.info
        if append.expected_seq < info.next_seq and append.events:
            return Outcome.COMMITTED if self._is_stored(append) else Outcome.FENCED
        if append.expected_seq != info.next_seq:
            return Outcome.FENCED
        if not is_held:
            return Outcome.FENCED if append.events else Outcome.COMMITTED
        data = b""
        after = replace(info, next_seq=info.next_seq + len(append.events), wake_at=append.wake_at)
        if append.header is not None and not info.next_seq:
            after = replace(after, seed_length=append.header.seed_length, parent=append.header.parent)
            data = meta_line(after)
        elif not append.events and append.wake_at != info.wake_at:
            data = meta_line(after)
        if append.events:
            data += event_lines(append.events, append.wake_at)
        if not data:
            return Outcome.COMMITTED  # only letting go: nothing to write
        size = state.size
        grown = replace(state, info=after, size=size + len(data))
        return _Write(grown, Outcome.COMMITTED, data, keep=size, at=size, append=append)

    def _state(self, session_id: str) -> _State | None:
        """Return what is certain of a session; one that nobody holds is read from its file."""
        known = self._states.get(session_id)
        if known is not None:
            return known
        log = scan_file(self.path(session_id), session_id)
        return None if log is None else _State(log.info, log.last_end, indexed_size=log.indexed_size)

    def _is_stored(self, append: Append) -> bool:
        log, first = self._certain(append.session_id), append.expected_seq
        return log is not None and tuple(log[first : first + len(append.events)]) == append.events

    # -- reading --------------------------------------------------------------------------------------------

    def path(self, session_id: str) -> Path:
        """Return where a session's file is."""
        return self.folder / file_name(session_id)

    def read(self, session_id: str, after_seq: int, types: Collection[str] | None) -> list[StoredEvent]:
        """Return a session's events; see ``Store.read``."""
        if types is not None and not types:  # the question is only whether it is there
            if next(batches_of(self.path(session_id), session_id), None) is None:
                raise self.unknown(session_id)
            return []
        log = self._log(session_id)
        first = max(after_seq + 1, 0)
        return log[first:] if types is None else log.of_types(types, first)

    def open_log(self, session_id: str, types: Collection[str]) -> OpenedLog:
        """Return a session's log; see ``ByTypeStore.open_log``."""
        log = self._log(session_id)
        return OpenedLog(log, log.bodies(types))

    def _log(self, session_id: str) -> ScannedLog:
        log = self._just_read.pop(session_id, None)
        if log is None:
            log = self._certain(session_id)
        if log is None:
            raise self.unknown(session_id)
        return log

    def _certain(self, session_id: str) -> ScannedLog | None:
        """Return what is stored, without what could be written and not be synced."""
        state = self._states.get(session_id)
        return scan_file(self.path(session_id), session_id, None if state is None else state.size)

    def live(self, held: Collection[str]) -> list[SessionInfo]:
        """Return the sessions with a ``wake_at``, earliest first, then those only ``held``; at first O(folder)."""
        if self._waking is None:
            self._waking = {}
            for path in session_files(self.folder):
                self._note_waking(path)
        waking = sorted(self._waking.values(), key=lambda info: (info.wake_at or 0, info.id))
        others = [self._state(session_id) for session_id in sorted(set(held) - self._waking.keys())]
        return waking + [state.info for state in others if state is not None]

    def _note_waking(self, path: Path) -> None:
        assert self._waking is not None
        try:
            log = scan_file(path)
        except DamagedLineError as error:  # it harms no other session; whoever opens it is told
            _logger.error("%s", error)
            return
        if log is not None and log.info.wake_at is not None:
            self._waking[log.info.id] = log.info

    def unknown(self, session_id: str) -> SessionUnknownError:
        """Return the error for a session that is not there, with the ids most like it; O(folder)."""
        ids = map(likely_id, session_files(self.folder))
        return SessionUnknownError(str(self.folder), session_id, nearest(session_id, ids))
