"""Starts lives fast: a process that has imported everything and forks one child for each plan it is told.

A fresh interpreter takes most of a second, a fork some milliseconds. Forking is safe here: this process has one thread
and no event loop.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.crash.forgetful import forgetful_life
from tests.crash.life import Plan, live

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
"""Longer than any life; a child that hangs is a fault and must not stay behind."""


class Nursery:
    """The driver's end of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, plan: Plan) -> bool:
        """Live ``plan``; whether it was killed. A life that ends in any other way than planned fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(plan)) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        if os.WIFSIGNALED(status):
            expected = signal.SIGKILL if plan.kill_at else signal.SIGALRM
            assert os.WTERMSIG(status) == expected, f"{plan} ended by signal {os.WTERMSIG(status)}"
            assert plan.kill_at or plan.kill_after_ms, f"{plan} hung for {PATIENCE_S} s"
            return True
        assert os.WEXITSTATUS(status) == 0, f"{plan} failed, see stderr"
        return False


@contextmanager
def nursery() -> Iterator[Nursery]:
    """Open a nursery; its end ends the process."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.nursery"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Nursery(process)


def _bear(plan: Plan) -> int:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    code = 1
    try:
        signal.alarm(PATIENCE_S)
        forgetful_life(plan) if plan.is_forgetful else live(plan)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    for line in sys.stdin:
        print(_bear(Plan(**json.loads(line))), flush=True)  # noqa: T201 - the answer to the driver
