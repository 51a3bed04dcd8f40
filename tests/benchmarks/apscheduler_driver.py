"""Runs one workload on APScheduler 3 and prints its figures (ms) as JSON; it needs nothing of this project.

usage: apscheduler_driver.py overdue COUNT
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from time import perf_counter
from typing import Any

from apscheduler.executors.asyncio import AsyncIOExecutor  # type: ignore[import-not-found]  # in its own environment only
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore  # type: ignore[import-not-found]  # in its own environment only
from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-not-found]  # in its own environment only
from sqlalchemy import event  # type: ignore[import-not-found]  # in its own environment only

_FIRED: list[int] = []
_DONE: list[asyncio.Event] = []


async def job(number: int, wanted: int) -> None:
    """Do what a job does; found by name, since a job store keeps names."""
    _FIRED.append(number)
    if len(_FIRED) == wanted:
        _DONE[0].set()


def _store(folder: str) -> SQLAlchemyJobStore:
    store = SQLAlchemyJobStore(url=f"sqlite:///{Path(folder) / 'jobs.db'}")

    @event.listens_for(store.engine, "connect")  # type: ignore[untyped-decorator]  # as above
    def _set_up(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    return store


async def overdue(count: int) -> dict[str, float]:
    """Resume a scheduler with ``count`` overdue jobs; until the last one has run and the store is empty, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        scheduler = AsyncIOScheduler(
            jobstores={"default": _store(folder)},
            executors={"default": AsyncIOExecutor()},
            job_defaults={"misfire_grace_time": None, "coalesce": False},
            timezone=timezone.utc,  # noqa: UP017 - as the rest of its interface spells it
        )
        scheduler.start(paused=True)
        past = datetime.now(timezone.utc) - timedelta(seconds=100)  # noqa: UP017 - as above
        for number in range(count):
            when = past + timedelta(milliseconds=number)
            scheduler.add_job(job, "date", run_date=when, args=[number, count], id=f"job-{number}")
        _DONE.append(asyncio.Event())
        begun = perf_counter()
        scheduler.resume()
        await _DONE[0].wait()
        taken = perf_counter() - begun
        if scheduler.get_jobs():
            msg = "a job that has run is still in the store"
            raise RuntimeError(msg)
        scheduler.shutdown()
    return {"ms": taken * 1e3}


if __name__ == "__main__":
    _workload, _count = sys.argv[1:]
    sys.modules["apscheduler_driver"] = sys.modules["__main__"]
    job.__module__ = "apscheduler_driver"
    sys.stdout.write(json.dumps(asyncio.run(overdue(int(_count)))) + "\n")
