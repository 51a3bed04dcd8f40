"""On a disk that fails the loop keeps turning, nothing is lost, and what waited comes by itself when the fault ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kinds import KINDS
from tests.faults.ward import (
    LONGEST_BLOCK_S,
    SLACK_S,
    build_library,
    check_report,
    run_patients,
    small_file_system,
)

LASTS_S = 1.2
"""The reminder behind the fault comes due after one second, the shortest delay there is."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(90)  # a real process, in which the faults last over a second of real time
def test_calls_that_fail_or_hang_lose_nothing_and_block_nobody(tmp_path: Path, kind: str) -> None:
    library = build_library(tmp_path)
    if library is None:
        pytest.skip("needs Linux and a C compiler; the file-size limit is tested without")
    calls = ["write-eio", "sync-eio", "read-only", "no-space", "sync-hangs", "write-hangs"]
    if kind == "sqlite":
        calls.append("locked")
    faults = [f"{kind}/{call}" for call in calls]
    reports = run_patients(tmp_path, LASTS_S, faults, preload=library)
    assert reports["loop"]["longest_s"] <= LONGEST_BLOCK_S
    for fault in faults:
        check_report(fault, reports[fault])
    assert reports[f"{kind}/repeat"]["outcomes"] == ["unknown", "unknown", "committed"]
    assert reports[f"{kind}/repeat"]["unsynced"] == 0, "confirmed although no sync had succeeded"
    for fault, reopened in reports.items():
        if "reopen-" not in fault:
            continue
        assert reopened["closed_s"] <= 4 + SLACK_S, (fault, reopened)
        assert reopened["listed"][:1] == ["kept"], (fault, reopened)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(60)  # a real process, in which the fault lasts over a second of real time
def test_full_file_system_loses_nothing_and_the_reminder_comes_when_there_is_room(
    tmp_path: Path, kind: str
) -> None:
    with small_file_system(tmp_path) as is_small:
        if not is_small:
            pytest.skip("needs the right to mount; the file-size limit is tested without")
        reports = run_patients(tmp_path, LASTS_S, [f"{kind}/full"])
    assert reports["loop"]["longest_s"] <= LONGEST_BLOCK_S
    check_report(f"{kind}/full", reports[f"{kind}/full"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(60)  # a real process, in which the fault lasts over a second of real time
def test_file_size_limit_loses_nothing_and_the_reminder_comes_when_it_is_raised(
    tmp_path: Path, kind: str
) -> None:
    reports = run_patients(tmp_path, LASTS_S, [f"{kind}/size-limit"])
    assert reports["loop"]["longest_s"] <= LONGEST_BLOCK_S
    check_report(f"{kind}/size-limit", reports[f"{kind}/size-limit"])
