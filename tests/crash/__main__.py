"""``python -m tests.crash --kills 1000 [--seed N] [--store sqlite|jsonl|both]``: random kills, each with a recovery."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path

from tests.crash.campaign import random_kills
from tests.crash.kinds import KINDS
from tests.crash.nursery import nursery


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument(
        "--store", choices=(*KINDS, "both"), default="both", help="each gets its share of the kills"
    )
    options = parser.parse_args()
    kinds = KINDS if options.store == "both" else (options.store,)
    print(f"seed {options.seed}", flush=True)  # noqa: T201 - to repeat what failed
    with tempfile.TemporaryDirectory(prefix="schedule-sm-crash.") as folder, nursery() as started:
        for kind in kinds:
            kills = -(-options.kills // len(kinds))
            where = random_kills(started, Path(folder), kind, kills=kills, seed=options.seed)
            for place, count in sorted(where.items()):
                print(f"{count:6} {place}")  # noqa: T201 - the report
            print(f"{sum(where.values()):6} kills on {kind}, nothing lost, nothing twice", flush=True)  # noqa: T201 - the report


if __name__ == "__main__":
    main()
