"""``python -m tests.faults [--store sqlite|jsonl|both]``: the faults that CI keeps short, for 1 s, 10 s and 40 s, longer than any bound."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.crash.kinds import KINDS
from tests.faults.ward import LONGEST_BLOCK_S, build_library, check_report, run_patients

LASTS_S = (1.2, 10.0, 40.0)
LONGEST_BACK_OFF_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=(*KINDS, "both"), default="both")
    store = parser.parse_args().store
    kinds = KINDS if store == "both" else (store,)
    with tempfile.TemporaryDirectory(prefix="schedule-sm-faults.") as place:
        library = build_library(Path(place))
        calls = [] if library is None else ["sync-hangs", "no-space", "write-eio"]
        faults = [f"{kind}/{call}" for kind in kinds for call in calls]
        if "sqlite" in kinds:
            faults.append("sqlite/locked")
        for lasts_s in LASTS_S:
            folder = Path(place) / f"{lasts_s}"
            folder.mkdir()
            reports = run_patients(folder, lasts_s, faults, preload=library)
            print(f"{lasts_s} s: {json.dumps(reports)}", flush=True)  # noqa: T201 - the report
            assert reports["loop"]["longest_s"] <= LONGEST_BLOCK_S
            for fault in faults:
                check_report(fault, reports[fault], LONGEST_BACK_OFF_S)


if __name__ == "__main__":
    main()
