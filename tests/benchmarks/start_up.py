"""Row 12: what it takes to import the package and to start its command, and what the plugin alone imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from tests.benchmarks.frame import Figure, Figures, Kind, Row, Side, Target
from tests.benchmarks.setting import Setting

NOT_FOR_THE_PLUGIN: Final = (
    "agents",
    "fastmcp",
    "filelock",
    "langchain_core",
    "langgraph",
    "mcp",
    "opentelemetry",
    "prompt_toolkit",
    "pydantic_ai",
    "rich",
    "schedule_sm.adapters",
    "schedule_sm.cli",
    "schedule_sm.embedded",
    "schedule_sm.stores",
    "sqlite3",
    "typer",
)
"""Frameworks, terminal libraries and stores."""

_FLOOR: Final = "import pydantic, statemachine"


def rows(setting: Setting) -> list[Row]:
    """Return the row."""
    compiled = _with_bytecode(setting.folder / "bytecode")
    sides: dict[str, Side] = {
        "import schedule_sm": lambda: imported(compiled, "schedule_sm"),
        "import schedule_sm.plugin": lambda: imported(compiled, "schedule_sm.plugin"),
        _FLOOR: lambda: imported(compiled, "pydantic", "statemachine"),
        "schedule-sm --help": lambda: process(compiled, [sys.executable, "-m", "schedule_sm", "--help"]),
        f"python -c '{_FLOOR}'": lambda: process(compiled, [sys.executable, "-c", _FLOOR]),
        "plugin": loaded_by_the_plugin,
    }
    return [
        Row(
            12,
            "Fresh processes that find every module compiled: the import statement alone, timed inside "
            "(schedule_sm.plugin too, since the package itself may load its names late); the whole process of the"
            " command's help beside the whole process of the floor; and the modules that importing "
            "schedule_sm.plugin loads.",
            sides,
            [
                Target(
                    "12",
                    f"import schedule_sm over {_FLOOR}",
                    Figure("import schedule_sm", "ms"),
                    1.5,
                    Figure(_FLOOR, "ms"),
                ),
                Target(
                    "12",
                    f"import schedule_sm.plugin over {_FLOOR}",
                    Figure("import schedule_sm.plugin", "ms"),
                    1.5,
                    Figure(_FLOOR, "ms"),
                ),
                Target(
                    "12",
                    "schedule-sm --help over the floor's process",
                    Figure("schedule-sm --help", "ms"),
                    1.5,
                    Figure(f"python -c '{_FLOOR}'", "ms"),
                ),
                Target(
                    "12",
                    "frameworks, terminal libraries and stores that the plugin alone imports",
                    Figure("plugin", "modules"),
                    0,
                    kind=Kind.VALUE,
                    unit="count",
                ),
            ],
            samples=5,
        )
    ]


def _statement(seconds_of: str) -> str:
    return (
        f"import time; begun = time.perf_counter()\nimport {seconds_of}\nprint(time.perf_counter() - begun)"
    )


def _with_bytecode(folder: Path) -> dict[str, str]:
    """Return an environment in which all that was imported once is compiled, as installers leave it.

    Otherwise our side would be compiled again in each process wherever Python is told to write no bytecode.
    """
    allowed = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**allowed, "PYTHONPYCACHEPREFIX": str(folder)}


def imported(environment: Mapping[str, str], *modules: str) -> Figures:
    """Import ``modules`` in a process that has imported nothing else; in ms."""
    done = subprocess.run(
        [sys.executable, "-c", _statement(", ".join(modules))],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return {"ms": float(done.stdout) * 1e3}


def process(environment: Mapping[str, str], command: Sequence[str]) -> Figures:
    """Run ``command`` to its end; in ms."""
    begun = perf_counter()
    subprocess.run(command, capture_output=True, check=True, env=environment)
    return {"ms": (perf_counter() - begun) * 1e3}


def loaded_by_the_plugin() -> Figures:
    """Count what importing the plugin alone loads of ``NOT_FOR_THE_PLUGIN``."""
    code = "import sys, schedule_sm.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    return {"modules": float(len(loaded & set(NOT_FOR_THE_PLUGIN)))}
