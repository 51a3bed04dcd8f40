"""Every exit code of the command line, what it means, and which error it stands for. No other file has a number.

``schedule-sm --help`` prints this table; a code is never given another meaning.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What the shell is told."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_A_DATABASE = 3
    NEWER_SCHEMA = 4
    READ_ONLY = 5
    LOCKED = 6
    DISK_FULL = 7
    FOLDER_MISSING = 8
    STORE_MISSING = 9
    SESSION_UNKNOWN = 10
    CORRUPT_LOG = 11
    BUSY = 12
    STORE_IO = 13
    IMPORT_REFUSED = 14
    LINKED = 15
    REQUIREMENT_MISSING = 16
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


MEANINGS: Final[dict[ExitCode, str]] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "verify found something wrong, diagrams are stale, or a failure without a code of its own",
    ExitCode.USAGE: "wrong arguments or options",
    ExitCode.NOT_A_DATABASE: "the file or folder is no schedule-sm store",
    ExitCode.NEWER_SCHEMA: "a newer release wrote the file",
    ExitCode.READ_ONLY: "the file or its folder cannot be written or read",
    ExitCode.LOCKED: "another host holds the file",
    ExitCode.DISK_FULL: "no room is left",
    ExitCode.FOLDER_MISSING: "the folder does not exist",
    ExitCode.STORE_MISSING: "the file does not exist",
    ExitCode.SESSION_UNKNOWN: "the file holds no such session",
    ExitCode.CORRUPT_LOG: "a session's log cannot be replayed",
    ExitCode.BUSY: "another program is writing the file",
    ExitCode.STORE_IO: "the disk or the database engine failed",
    ExitCode.IMPORT_REFUSED: "the source of an import is wrong; nothing was written",
    ExitCode.LINKED: "the file has a second name, a hard link",
    ExitCode.REQUIREMENT_MISSING: "mcp, chat --model: a package or a variable is missing, or the model is unknown",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.PIPE_CLOSED: "the reader of the output went away",
    ExitCode.TERMINATED: "told to end (SIGTERM, SIGHUP)",
}

_BY_ERROR: Final[dict[str, ExitCode]] = {
    "not_a_database": ExitCode.NOT_A_DATABASE,
    "newer_schema": ExitCode.NEWER_SCHEMA,
    "read_only": ExitCode.READ_ONLY,
    "locked": ExitCode.LOCKED,
    "disk_full": ExitCode.DISK_FULL,
    "folder_missing": ExitCode.FOLDER_MISSING,
    "store_missing": ExitCode.STORE_MISSING,
    "session_unknown": ExitCode.SESSION_UNKNOWN,
    "corrupt_schedule_log": ExitCode.CORRUPT_LOG,
    "busy": ExitCode.BUSY,
    "store_io": ExitCode.STORE_IO,
    "import_refused": ExitCode.IMPORT_REFUSED,
    "linked": ExitCode.LINKED,
    "adapter_requirement": ExitCode.REQUIREMENT_MISSING,
    "model_missing": ExitCode.REQUIREMENT_MISSING,
}


def exit_code_of(error_code: str) -> ExitCode:
    """Return the exit code for an error's stable ``code``; FAILED for one that has none of its own."""
    return _BY_ERROR.get(error_code, ExitCode.FAILED)


def table() -> str:
    """Return the table as ``--help`` shows it, one code a line."""
    return "\n".join(f"{code.value:>5}  {meaning}" for code, meaning in MEANINGS.items())
