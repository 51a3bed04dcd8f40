"""``version_1.db`` was written by the first release's schema and is never written again: it has to stay readable."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from schedule_sm.embedded import BuiltinRunner, ScheduleHost
from schedule_sm.stores import sqlite_schema
from schedule_sm.stores.sqlite import SqliteStore

KEPT = Path(__file__).with_name("version_1.db")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return Path(shutil.copy(KEPT, tmp_path / "agent.db"))


def test_kept_file_is_of_the_first_version() -> None:
    connection = sqlite3.connect(f"file:{KEPT}?mode=ro&immutable=1", uri=True)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


@pytest.mark.asyncio
async def test_reminders_of_the_first_version_go_on(first: Path) -> None:
    async with ScheduleHost.open(first, runner=BuiltinRunner()) as host:
        session = await host.session("main", create=False)
        assert "schedule-1: renew the passport" in await session.send("list")
        assert "(schedule-3)" in await session.send("remind me in 1 hour to go on")
    connection = sqlite3.connect(first)
    assert connection.execute("PRAGMA user_version").fetchone() == (sqlite_schema.SCHEMA_VERSION,)
    connection.close()


def test_a_reader_needs_no_migration_and_makes_none(first: Path) -> None:
    before = first.read_bytes()
    with SqliteStore.open_read_only(first) as reader:
        assert reader.version == 1
        every = list(reader.events("main"))
        some = {every[0].type, every[-1].type}
        assert list(reader.events("main", types=some)) == [event for event in every if event.type in some]
        assert reader.damage() == []
    assert first.read_bytes() == before


@pytest.mark.asyncio
async def test_every_event_of_the_first_version_outlives_a_later_migration(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ("ALTER TABLE sessions ADD COLUMN note TEXT", "UPDATE sessions SET note = 'migrated'")
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, step))
    monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", sqlite_schema.SCHEMA_VERSION + 1)
    with SqliteStore.open_read_only(KEPT) as reader:
        kept = list(reader.events("main"))
    await (await SqliteStore.open(first)).close()
    with SqliteStore.open_read_only(first) as reader:
        assert list(reader.events("main")) == kept
        assert reader.version == sqlite_schema.SCHEMA_VERSION
    assert len(kept) == 12
