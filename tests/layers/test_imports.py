"""What importing the package loads, and what it offers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import schedule_sm

ROOT = Path(__file__).parents[2]
FORBIDDEN = (
    "typer", "click", "rich", "prompt_toolkit", "filelock", "sqlite3", "pytest", "hypothesis", "time_machine",
    "schedule_sm.embedded", "schedule_sm.stores", "schedule_sm.testing", "schedule_sm.cli", "schedule_sm.diagram",
    "opentelemetry",
)  # fmt: skip


@pytest.mark.slow
def test_importing_the_package_loads_no_store_framework_or_terminal_library() -> None:
    code = f"import sys, schedule_sm; print([name for name in {FORBIDDEN!r} if name in sys.modules])"
    bare = {
        name: value for name, value in os.environ.items() if not name.startswith("COV")
    }  # it loads sqlite3
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env=bare,
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_listed() -> None:
    for name in schedule_sm.__all__:
        assert getattr(schedule_sm, name) is not None
        assert name in dir(schedule_sm)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        schedule_sm.nothing  # noqa: B018
