"""Transition coverage: a pytest plugin that counts which edges of state charts the tests take.

For any project with python-statemachine charts. ``pytest --chart-cov=shop.orders:OrderChart`` reports which states,
transitions and pairs of transitions no test took, with the shortest event path to each.

- ``--chart-cov[=CHART,...]``: ``module:Class``, or a class name of schedule-sm's own (``DeliveryChart``). Repeatable.
  Without a chart: the ini option ``chart_cov``, else every chart that a counted test stepped.
- ``--chart-cov-report=term|json|md|mermaid[:FILE]``: repeatable; without a file it goes to the terminal.
- ``--chart-cov-fail-under=N``: fail if any chart has less than N percent of its transitions covered.
- ``--chart-cov-pairs-fail-under=N``: fail if any chart has less than N percent of its pairs of transitions covered.
- ``--chart-cov-exempt=FILE``: pairs that cannot happen, with reasons (TOML; ``chart_exemptions`` shows an example).
  They count neither as covered nor as missing; one that a test takes all the same fails the run.
- ``@pytest.mark.no_chart_cov``: steps of this test do not count (it sweeps the chart itself, say).

This module is loaded into every pytest run as an entry point, so it imports pytest alone; the rest is imported when an
option asks for it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

FORMATS = ("term", "json", "md", "mermaid")
ENTRY_POINT = "schedule_sm_transition_coverage"


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """One ``--chart-cov-report``."""

    format: str
    file: str | None
    """``None``: the terminal."""


def _report_request(text: str) -> ReportRequest:
    format_, _, file = text.partition(":")
    if format_ not in FORMATS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of {', '.join(FORMATS)}, each with an optional :FILE"
        )
    return ReportRequest(format_, file or None)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options; see the module's docstring."""
    # Named with -p or in pytest_plugins as well as installed: whichever comes second is no second plugin.
    name = pluginmanager.get_name(sys.modules[__name__])
    for other in {ENTRY_POINT, __name__} - {name}:
        pluginmanager.set_blocked(other)
    group = parser.getgroup("chart-cov", "transition coverage of state charts")
    group.addoption(
        "--chart-cov",
        action="append",
        nargs="?",
        const="",
        default=[],
        metavar="CHART",
        help="count transitions taken of module:Class (repeatable, or with commas; use the form with `=`)",
    )
    group.addoption(
        "--chart-cov-report",
        action="append",
        type=_report_request,
        default=[],
        metavar="FORMAT[:FILE]",
        help="term (default), json, md or mermaid; repeatable",
    )
    group.addoption(
        "--chart-cov-fail-under",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="fail if a chart has less than this share of its transitions covered",
    )
    group.addoption(
        "--chart-cov-pairs-fail-under",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="fail if a chart has less than this share of its pairs of transitions covered",
    )
    group.addoption(
        "--chart-cov-exempt",
        type=Path,
        metavar="FILE",
        help="pairs of transitions that cannot happen, with reasons (TOML); one that is taken fails the run",
    )
    parser.addini(
        "chart_cov", "charts that a bare --chart-cov counts, as module:Class", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start recording, if asked to."""
    config.addinivalue_line("markers", "no_chart_cov: transitions taken in this test are not counted")
    asked: list[str] = config.getoption("--chart-cov")
    if asked:
        session = import_module("schedule_sm.testing.chart_session")
        config.pluginmanager.register(session.ChartCoverage(config, asked), "chart-cov-session")
