"""Options and checks that hold for every test."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import settings

from schedule_sm.core import cursor
from tests.chart_engine import LibraryEngine

pytest_plugins = ["schedule_sm.testing.travel"]

settings.register_profile("default", deadline=None)  # a slow machine is no failure
settings.load_profile("default")
logging.getLogger("statemachine").setLevel(logging.WARNING)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--chart-engine``: what decides each step of a cursor."""
    parser.addoption(
        "--chart-engine",
        choices=("table", "library"),
        default="table",
        help="run cursors on the compiled tables (default) or on python-statemachine's engine",
    )


@pytest.fixture(autouse=True)
def _chart_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption("--chart-engine") == "library":
        monkeypatch.setattr(cursor, "ENGINE", LibraryEngine())


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """After every test: what it did to the package's logger is undone, or later tests would miss warnings."""
    logger = logging.getLogger("schedule_sm")
    before = logger.level, logger.disabled, logger.propagate, logging.root.manager.disable
    yield
    assert (logger.level, logger.disabled, logger.propagate, logging.root.manager.disable) == before


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> None:
    """After every async test: no task is left and no timer armed.

    It is asked for first, so it is checked last, inside the test's own loop. A test that runs loops of its own has
    closed them, which ``asyncio.run`` does.
    """
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("_loop_is_clean")


@pytest_asyncio.fixture
async def _loop_is_clean() -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    known = asyncio.all_tasks(loop)
    yield
    for _ in range(5):  # callbacks of what just ended
        await asyncio.sleep(0)
    tasks = [task for task in asyncio.all_tasks(loop) - known if task is not asyncio.current_task()]
    assert not tasks, f"tasks left behind: {tasks!r}"
    armed = [handle for handle in _scheduled(loop) if not handle.cancelled()]
    assert not armed, f"timers left behind: {armed!r}"


def _scheduled(loop: asyncio.AbstractEventLoop) -> list[Any]:
    return list(getattr(loop, "_scheduled", ()))
