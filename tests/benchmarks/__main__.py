"""``python -m tests.benchmarks [NAME…]``: measure, judge and report; exit code 1 when a target is missed.

Names are rows (``1``) or targets (``1b``). Without ``--reference`` only the targets against floors of this very run, and
against fixed limits, are taken.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from rich.console import Console

from tests.benchmarks import (
    at_rest,
    catch_up,
    durable,
    folding,
    lateness,
    many_agents,
    memory,
    start_up,
    tool_calls,
)
from tests.benchmarks.frame import MIN_ROUNDS, Judged, Row, Verdict, judge, measure
from tests.benchmarks.reference_sides import default_folder, install_apscheduler, install_reference
from tests.benchmarks.report import as_json, conditions_now, page, table
from tests.benchmarks.setting import Setting

_PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "benchmarks.md"
_WIDTH: Final = 150
"""Of the table where there is no terminal to ask."""
_MODULES: Final = (
    catch_up,
    tool_calls,
    folding,
    lateness,
    many_agents,
    durable,
    memory,
    at_rest,
    start_up,
)


def chosen(rows: Sequence[Row], names: Sequence[str], *, quick: bool) -> list[Row]:
    """Return the rows in order of number, each narrowed to what ``names`` (none: everything) and ``quick`` ask for.

    Raises:
        ValueError: for a name that is neither a row nor a target, or if no target is left to judge.
    """
    known = {str(row.number) for row in rows} | {target.name for row in rows for target in row.targets}
    if unknown := [name for name in names if name not in known]:
        msg = f"no such row: {', '.join(unknown)}; there are {', '.join(sorted(known, key=_by_number))}"
        raise ValueError(msg)
    narrowed = []
    for row in sorted(rows, key=lambda row: row.number):
        is_row_named = not names or str(row.number) in names
        wanted = [
            target
            for target in row.targets
            if (is_row_named or target.name in names) and (not quick or target.name in row.quick)
        ]
        narrowed.append(row.narrowed(wanted))
    if not (judged := [row for row in narrowed if row.targets]):
        quick_ones = sorted({name for row in rows for name in row.quick}, key=_by_number)
        msg = f"nothing of {', '.join(names)} is in the quick run; there are {', '.join(quick_ones)}"
        raise ValueError(msg)
    return judged


def _by_number(name: str) -> tuple[int, str]:
    digits = name.rstrip("abcd")
    return int(digits), name


def run(rows: Sequence[Row], *, rounds: int, slack: bool, console: Console) -> list[Judged]:
    """Measure ``rows`` one after the other and judge their targets."""
    results = []
    for row in rows:
        begun = perf_counter()
        taken = measure(row, rounds)
        seconds = perf_counter() - begun
        console.print(
            f"row {row.number}, {seconds:.0f} s: {'; '.join(row.sides)}", style="dim", highlight=False
        )
        results += [judge(target, taken, slack=slack) for target in row.targets]
    return results


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a row (1) or a target (1b); all by default")
    parser.add_argument(
        "--reference",
        action="store_true",
        help="install and measure the reference (npm) and APScheduler (pip) too",
    )
    parser.add_argument(
        "--reference-dir", type=Path, default=default_folder(), help="where they are installed"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of every round")
    parser.add_argument("--quick", action="store_true", help="small sizes and wide limits: under a minute")
    parser.add_argument(
        "--docs", action="store_true", help=f"write the table to {_PAGE.name} in the documentation"
    )
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, help="at least 3; odd")
    parser.add_argument(
        "--folder", type=Path, help="on the disk to be measured; the temporary folder by default"
    )
    options = parser.parse_args(arguments)
    if options.rounds < MIN_ROUNDS or not options.rounds % 2:
        parser.error(f"--rounds must be odd and at least {MIN_ROUNDS}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code."""
    options = _parsed(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    reference = install_reference(options.reference_dir) if options.reference else None
    apscheduler = install_apscheduler(options.reference_dir) if options.reference else None
    with tempfile.TemporaryDirectory(prefix="schedule-sm-benchmarks.", dir=options.folder) as folder:
        setting = Setting(Path(folder), options.quick, reference, apscheduler)
        every_row = [row for module in _MODULES for row in module.rows(setting)]
        try:
            rows = chosen(every_row, options.names, quick=options.quick)
        except ValueError as error:
            console.print(str(error), style="red")
            return 2
        results = run(rows, rounds=options.rounds, slack=options.quick, console=console)
    others = [program.versions for program in (reference, apscheduler) if program is not None]
    conditions = conditions_now(rounds=options.rounds, is_quick=options.quick, others=others)
    console.print(table(results))
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(results, conditions), indent=1) + "\n", encoding="utf-8")
    if options.docs:
        _PAGE.write_text(page(results, rows, conditions), encoding="utf-8", newline="\n")
    return 1 if any(judged.verdict is Verdict.MISSED for judged in results) else 0


if __name__ == "__main__":
    logging.getLogger("schedule_sm").setLevel(logging.ERROR)
    sys.exit(main())
