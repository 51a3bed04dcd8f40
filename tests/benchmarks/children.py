"""Jobs that need a process of their own: ``python -m tests.benchmarks.children JOB ARGUMENT…`` prints figures as JSON.

What a process has imported and allocated before would otherwise be part of what is measured.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.benchmarks.frame import Side
from tests.benchmarks.reference_sides import Program

_TREE: Final = Path(__file__).parents[2]


def in_a_child(module: str, job: str, *arguments: object) -> Side:
    """Return the side whose samples are ``job`` of ``tests.benchmarks.<module>``, each in a fresh process.

    The job takes its arguments as text.
    """
    program = Program((sys.executable, "-m", "tests.benchmarks.children", module), "", working_folder=_TREE)
    return lambda: program.run(job, *arguments)


def main(module: str, job: str, *arguments: str) -> None:
    """Run one job and print its figures."""
    figures = getattr(import_module(f"tests.benchmarks.{module}"), job)(*arguments)
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
