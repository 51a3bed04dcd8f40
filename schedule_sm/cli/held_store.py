"""The store of a command that holds it: an SQLite file, or a JSONL folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from schedule_sm.stores.jsonl import JsonlStore
from schedule_sm.stores.jsonl_folder import MARK
from schedule_sm.stores.sqlite import SqliteStore


@asynccontextmanager
async def held_store(path: Path) -> AsyncIterator[SqliteStore | JsonlStore]:
    """Hold the store at ``path`` until the end: the folder if it is a JSONL store, else a file, created if need be.

    Raises:
        StoreError: its class says what is wrong.
    """
    store = await (JsonlStore if _is_jsonl(path) else SqliteStore).open(path)
    try:
        yield store
    finally:
        await store.close()


def _is_jsonl(path: Path) -> bool:
    return os.path.exists(
        path / MARK
    )  # unlike the path's own, it raises nothing for a folder that cannot be entered
