"""Counts what SQLite itself is told to commit: every statement of every connection that is opened meanwhile is seen."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

_EVENT: Final = re.compile(r"\s*INSERT INTO events\b.*?'(?P<type>[a-z]+/[a-z-]+)'", re.DOTALL)
_WRITES: Final = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)


@dataclass(slots=True)
class Commit:
    """What one transaction wrote."""

    dispatches: int = 0
    messages: int = 0
    writes: int = 0


class CommitTrace:
    """``with CommitTrace() as trace``: ``trace.commits`` are the COMMITs that wrote something, in order."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._connect = sqlite3.connect

    def __enter__(self) -> CommitTrace:
        def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = self._connect(*arguments, **options)
            connection.set_trace_callback(_Statements(self.commits).see)
            return connection

        sqlite3.connect = connect  # type: ignore[assignment]  # typed with overloads that this passes through
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sqlite3.connect = self._connect


class _Statements:
    """The statements of one connection."""

    def __init__(self, commits: list[Commit]) -> None:
        self._commits = commits
        self._open = Commit()

    def see(self, statement: str) -> None:
        """Take in one statement, its values expanded; called in the thread of the connection."""
        command = statement.lstrip().upper()
        if command.startswith(("BEGIN", "ROLLBACK;", "ROLLBACK")) and not command.startswith("ROLLBACK TO"):
            self._open = Commit()
        elif command.startswith("COMMIT"):
            if self._open.writes:
                self._commits.append(self._open)
            self._open = Commit()
        elif _WRITES.match(statement):
            self._open.writes += 1
            event = _EVENT.match(statement)
            if event is not None:
                self._open.messages += event["type"] == "inbox/message"
                self._open.dispatches += event["type"] == "schedule/change" and '"dispatch"' in statement
