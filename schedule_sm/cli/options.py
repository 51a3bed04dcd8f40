"""Arguments and options that several commands share, with the completion of session ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from schedule_sm.core.errors import ScheduleError
from schedule_sm.stores.errors import StoreError
from schedule_sm.stores.jsonl_reader import JsonlReader
from schedule_sm.stores.sqlite_reader import SqliteReader

_Given = TypeVar("_Given", str, "str | None", "list[str] | None")


class UnreadableError(StoreError):
    """The file is there, and this user may not read it."""

    code = "read_only"

    def __init__(self, place: str) -> None:
        """Name the file."""
        super().__init__(place, f"{place} cannot be read; give this user read permission to it")


def check_readable(path: Path) -> None:
    """Raise UnreadableError for a file that is there and may not be read."""
    if path.exists() and not os.access(path, os.R_OK):
        raise UnreadableError(str(path))


Reader: TypeAlias = SqliteReader | JsonlReader
"""What both kinds of store are read with; their methods are the same."""


def open_reader(path: Path) -> Reader:
    """Return a reader of the store at ``path``: of a JSONL store if that is a folder, else of an SQLite file.

    Raises:
        StoreError: its class says what is wrong.
    """
    try:
        check_readable(path)
    except PermissionError as error:  # the folder itself may not be entered
        raise UnreadableError(str(path)) from error
    return JsonlReader(path) if path.is_dir() else SqliteReader(path)


def complete_session(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of the sessions in the file named so far; whatever is wrong with it, nothing."""
    # behind an option without its value yet, the parser leaves the file among what it did not understand
    path: Any = context.params.get("file") or context.params.get("store") or next(iter(context.args), None)
    if path is None:
        return []
    try:
        with open_reader(Path(path)) as reader:
            return [info.id for info in reader.sessions() if info.id.startswith(incomplete)]
    except ScheduleError:
        return []


def check_session_id(given: _Given) -> _Given:
    """Return ``given``, one id or several; an empty one, or bytes that are no text, are a usage error."""
    for session_id in _ids(given):
        try:
            session_id.encode()
        except UnicodeEncodeError:
            msg = "a session id must be UTF-8 text"
            raise typer.BadParameter(msg) from None
        if not session_id:
            msg = "a session id must not be empty"
            raise typer.BadParameter(msg)
    return given


def _ids(given: str | list[str] | None) -> Sequence[str]:
    return [given] if isinstance(given, str) else given or ()


def session_option(*names: str, help: str) -> Any:  # noqa: A002 - Typer's name
    """Return the option for a session's id, checked and completed; ``help`` says what becomes of the session."""
    return typer.Option(
        *names, metavar="ID", callback=check_session_id, autocompletion=complete_session, help=help
    )


StoreFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="STORE",
        readable=False,  # whether it can be read is for `open_reader` to say, with an exit code of its own
        help="The store: an SQLite file or a JSONL folder, which a running host may be using.",
    ),
]
OneSession: TypeAlias = Annotated[str | None, session_option("--session", help="This session only.")]
