"""Every error of the stores: one class and one stable ``code`` for each thing that can be wrong with a place.

Each message is one line that ends with the next step.
"""

from __future__ import annotations

from schedule_sm.core.errors import ScheduleError


class StoreError(ScheduleError):
    """Base of the errors about stores; ``place`` is the file or folder it is about."""

    code = "store"

    def __init__(self, place: str, message: str) -> None:
        """Keep the ``place`` and a ``message`` of one line."""
        super().__init__(message)
        self.place = place


class NotADatabaseError(StoreError):
    """The file is something else."""

    code = "not_a_database"

    def __init__(self, place: str, detail: str = "it is no SQLite file") -> None:
        """Say in ``detail`` what the file is instead."""
        super().__init__(place, f"{place} is not a schedule-sm store: {detail}; name another file")


class NewerSchemaError(StoreError):
    """A newer release wrote the file."""

    code = "newer_schema"

    def __init__(self, place: str, found: int, known: int) -> None:
        """Name the schema version ``found`` and the newest one ``known`` here."""
        super().__init__(
            place,
            f"{place} has schema version {found}, this release knows {known}; upgrade schedule-sm to open it",
        )
        self.found = found
        self.known = known


class StoreReadOnlyError(StoreError):
    """The file or its folder cannot be written."""

    code = "read_only"

    def __init__(self, place: str) -> None:
        """Name what cannot be written."""
        super().__init__(
            place, f"{place} cannot be written; give this user write permission to it and its folder"
        )


class StoreLockedError(StoreError):
    """Another host holds the store; ``pid`` and ``since_ms`` are ``None`` where it did not say."""

    code = "locked"

    def __init__(self, place: str, pid: int | None, since_ms: int | None, since: str | None) -> None:
        """Name the holder's process id and since when (epoch ms, and as text) it holds the store."""
        holder = "another host" if pid is None else f"process {pid}"
        super().__init__(
            place,
            f"{place} is in use by {holder}{'' if since is None else f' since {since}'}; "
            "stop that host first, or read the file with `schedule-sm inspect`",
        )
        self.pid = pid
        self.since_ms = since_ms


class StoreLinkedError(StoreError):
    """The file has a second name, under which another host could write it without seeing our lock."""

    code = "linked"

    def __init__(self, place: str) -> None:
        """Name the file."""
        super().__init__(
            place,
            f"{place} has a second name (a hard link) under which another host could write it; "
            "remove that name, or copy the file and use the copy",
        )


class DiskFullError(StoreError):
    """There is no room for a write."""

    code = "disk_full"

    def __init__(self, place: str) -> None:
        """Name the store that needs room."""
        super().__init__(
            place,
            f"no room is left to write {place}; free some space (a running host then goes on by itself) or try again",
        )


class FolderMissingError(StoreError):
    """The folder that should hold the file is not there."""

    code = "folder_missing"

    def __init__(self, place: str) -> None:
        """Name the folder that is missing."""
        super().__init__(place, f"the folder {place} does not exist; create it first, or name another place")


class StoreMissingError(StoreError):
    """There is no file to read."""

    code = "store_missing"

    def __init__(self, place: str) -> None:
        """Name the file that is missing."""
        super().__init__(place, f"{place} does not exist; check the name")


class StoreBusyError(StoreError):
    """Another program holds the store's write lock."""

    code = "busy"

    def __init__(self, place: str) -> None:
        """Name the store that is busy."""
        super().__init__(
            place,
            f"another program is writing {place}; wait for it or end it (a running host then goes on by itself)",
        )


class StoreIOError(StoreError):
    """The operating system or the database engine reports a failure that has no class of its own."""

    code = "store_io"

    def __init__(self, place: str, detail: str) -> None:
        """Keep the engine's ``detail``."""
        super().__init__(
            place,
            f"{place} cannot be used ({detail}); check the disk (a running host goes on by itself once it can)",
        )


class StoreClosedError(StoreError):
    """The store was closed."""

    code = "store_closed"

    def __init__(self, place: str) -> None:
        """Name the store that was closed."""
        super().__init__(place, f"{place} was closed; open it again")


class SessionHeldError(StoreError):
    """Another owner holds the session."""

    code = "session_held"

    def __init__(self, place: str, session_id: str) -> None:
        """Name the session."""
        super().__init__(place, f"session {session_id!r} already has an owner; close it there first")
        self.session_id = session_id


class SessionUnknownError(StoreError):
    """There is no such session; ``nearest`` are the ids most like it."""

    code = "session_unknown"

    def __init__(self, place: str, session_id: str, nearest: tuple[str, ...] = ()) -> None:
        """Name the session and the ``nearest`` ids."""
        hint = f"did you mean {' or '.join(map(repr, nearest))}?" if nearest else "check the name"
        super().__init__(place, f"{place} holds no session {session_id!r}; {hint}")
        self.session_id = session_id
        self.nearest = nearest
