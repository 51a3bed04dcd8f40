"""Both stores on disk, as the crash and fault tests open and read them: the kind is told from the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.sqlite import SqliteStore

KINDS: Final = ("sqlite", "jsonl")
SUFFIXES: Final = {"sqlite": ".db", "jsonl": ".db.sessions"}
"""``bad_disk.c`` looks at files with ``.db`` in their path."""

DiskStore: TypeAlias = SqliteStore | JsonlStore


def place_of(folder: Path, name: str, kind: str) -> Path:
    """Return where a store of that ``kind`` lies."""
    return folder / f"{name}{SUFFIXES[kind]}"


async def open_store(path: Path, **sqlite_options: Any) -> DiskStore:
    """Open the store at ``path``."""
    if path.name.endswith(SUFFIXES["jsonl"]):
        return await JsonlStore.open(path)
    return await SqliteStore.open(path, **sqlite_options)
