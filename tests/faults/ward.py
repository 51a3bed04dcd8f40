"""Starts patients: child processes with hosts on bad disks, and says what each has to come out with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.faults.patient import TOOL_TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
LONGEST_BLOCK_S = 0.050
"""No turn of the loop may be further from the next."""
_RUNS = 3
"""What a store does to the loop it does in every run; a machine that is taken away from us for a while does not."""
SLACK_S = 1.0
"""What a loaded machine may add to a bound."""
FAULT_CODES = {
    "write-eio": ("store_io",),
    "sync-eio": ("store_io",),
    "read-only": ("read_only",),
    "no-space": ("disk_full",),
    "sync-hangs": (None,),
    "write-hangs": (None,),
    "locked": ("busy",),
    "full": ("disk_full",),
    "size-limit": ("store_io", "disk_full"),
}
"""What the store itself says meanwhile; nothing as long as it hangs."""
BACK_OFF_S = 4.0
"""After a fault of a second or two the store has backed off to at most so much."""


def build_library(folder: Path) -> Path | None:
    """Compile ``bad_disk.c`` into ``folder``; ``None`` where that cannot be done."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "bad_disk.so"
    source = Path(__file__).with_name("bad_disk.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run_patients(
    folder: Path, lasts_s: float, faults: Sequence[str], *, preload: Path | None = None
) -> dict[str, Any]:
    """Run a process with one host for each ``kind/fault``, which lasts ``lasts_s``; returns their reports.

    Where the loop stood longer than LONGEST_BLOCK_S, that alone is measured again, in _RUNS runs at most: the least
    counts. Everything else is what the first run came to.
    """
    environment = {**os.environ} if preload is None else {**os.environ, "LD_PRELOAD": str(preload)}

    def run() -> dict[str, Any]:
        with TemporaryDirectory(dir=folder) as place:  # a small file system has room for one
            command = [sys.executable, "-m", "tests.faults.patient", place, str(lasts_s), *faults]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True
            )
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    reports = run()
    for _ in range(_RUNS - 1):
        if reports["loop"]["longest_s"] <= LONGEST_BLOCK_S:
            break
        reports["loop"] = min(reports["loop"], run()["loop"], key=itemgetter("longest_s"))
    return reports


def check_report(fault: str, report: dict[str, Any], back_off_s: float = BACK_OFF_S) -> None:
    """Hold one report against what DESIGN section 6 and issue 5 promise."""
    assert "error" not in report, f"{fault}: {report['error']}"
    assert report["answers"] == ["persistence_uncertain"] * 3, (fault, report)
    assert report["fault"] in FAULT_CODES[fault.split("/")[1]], (fault, report)
    assert report["waited_s"] <= TOOL_TIMEOUT_S + SLACK_S, (fault, report)
    assert report["came_during"] == 0, (fault, report)
    assert report["owner_during"] == "parked", (fault, report)
    assert report["came"] == "s/schedule-2", (fault, report)
    assert report["came_after_s"] <= back_off_s + SLACK_S, (fault, report)
    assert report["listed"] == ["kept", "during"], (fault, report)
    assert report["turns"] == 1, (fault, report)
    assert report["unsynced"] == 0, (fault, report)
    assert report["closed_s"] <= SLACK_S, (fault, report)


@contextmanager
def small_file_system(folder: Path) -> Iterator[bool]:
    """Mount 400 KiB of memory on ``folder``; ``False`` where that is not allowed."""
    mount = shutil.which("mount")
    if mount is None or sys.platform != "linux" or os.geteuid() != 0:
        yield False
        return
    command = [mount, "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(folder)], check=True)
