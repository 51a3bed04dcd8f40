"""One pytest session with transition coverage on: whom to count for, merging workers, reports and thresholds."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from schedule_sm.core.chart_table import ChartTable, compile_chart
from schedule_sm.core.errors import ChartCompileError
from schedule_sm.testing.chart_exemptions import read_exemptions
from schedule_sm.testing.chart_graph import EdgePair, chart_name, read_graph
from schedule_sm.testing.chart_names import find_chart, full_name
from schedule_sm.testing.chart_recorder import Recorder, Tally
from schedule_sm.testing.chart_report import ChartReport, render, render_tests
from schedule_sm.testing.transition_coverage import ReportRequest

_SENT: Final = "schedule_sm_chart_cov"
_TERMINAL: Final = ReportRequest("term", None)


class ChartCoverage:
    """The plugin object of a session that counts transitions."""

    def __init__(self, config: pytest.Config, asked: list[str]) -> None:
        """Resolve the charts asked for and start to listen.

        Raises:
            pytest.UsageError: if one is no chart, or the file of exemptions cannot be used; with what to write.
        """
        self._config = config
        specs = [spec for value in asked for spec in value.split(",") if spec] or config.getini("chart_cov")
        self._charts: dict[str, type[Any]] = {}
        self._exempt: dict[str, dict[EdgePair, str]] = {}
        if not hasattr(config, "workerinput"):  # the controller reports; its workers go by names alone
            self._charts = {chart_name(chart): chart for chart in map(find_chart, specs)}
            file: Path | None = config.getoption("--chart-cov-exempt")
            self._exempt = read_exemptions(file) if file is not None else {}
        self._recorder = Recorder(map(full_name, specs))
        self._notes: list[str] = []
        self._reports: list[ChartReport] = []
        self._failures: list[str] = []
        config.add_cleanup(self._recorder.install())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count what happens within a test, its fixtures included, for that test."""
        self._recorder.begin_test(None if item.get_closest_marker("no_chart_cov") else item.nodeid)
        try:
            return (yield)
        finally:
            self._recorder.begin_test(None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Merge what a pytest-xdist worker counted."""
        sent = getattr(node, "workeroutput", {}).get(_SENT)
        if sent is None:
            self._notes.append(
                f"worker {node.gateway.id} sent no counts (it crashed?): the figures are too low"
            )
            return
        for name, data in json.loads(sent).items():
            self._recorder.tallies[name].add(Tally.from_json(data))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the counts to the controller, or write the reports and apply the thresholds."""
        if self._config.option.collectonly:
            return
        tallies = self._recorder.tallies
        worker_output: dict[str, object] | None = getattr(self._config, "workeroutput", None)
        if worker_output is not None:
            # Text, since only plain data may cross.
            worker_output[_SENT] = json.dumps({name: tally.to_json() for name, tally in tallies.items()})
            return
        self._reports = self._make_reports()
        for request in self._requests():
            if request.file is not None:
                text = render(request.format, self._reports, self._notes)
                Path(request.file).write_text(text, encoding="utf-8", newline="\n")
        self._apply_thresholds(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the reports that go to the terminal."""
        if self._config.option.collectonly or hasattr(self._config, "workerinput"):
            return
        terminalreporter.section("transition coverage")
        for request in self._requests():
            if request.file is not None:
                terminalreporter.write_line(f"{request.format} written to {request.file}")
                continue
            terminalreporter.write(render(request.format, self._reports, self._notes))
            if request.format == "term" and self._config.get_verbosity() > 0:
                for report in self._reports:
                    terminalreporter.write_line(f"{report.graph.name}:\n{render_tests(report)}")
        for failure in self._failures:
            terminalreporter.write_line(f"FAILED: {failure}", red=True)

    def _requests(self) -> list[ReportRequest]:
        requests: list[ReportRequest] = self._config.getoption("--chart-cov-report")
        return requests or [_TERMINAL]

    def _make_reports(self) -> list[ChartReport]:
        charts = dict(self._charts)
        if not charts:
            for name in sorted(self._recorder.tallies):
                try:
                    charts[name] = self._recorder.seen.get(name) or find_chart(name)
                except pytest.UsageError as error:  # a worker saw a chart that is local to a test
                    self._notes.append(str(error))
        if not charts:
            self._notes.append("no counted test stepped a chart; name one: --chart-cov=module:Class")
        return [
            ChartReport(
                read_graph(chart), self._recorder.tallies[name], self._exempt.get(name, {}), _table(chart)
            )
            for name, chart in charts.items()
        ]

    def _apply_thresholds(self, session: pytest.Session) -> None:
        least: float = self._config.getoption("--chart-cov-fail-under")
        least_pairs: float = self._config.getoption("--chart-cov-pairs-fail-under")
        for report in self._reports:
            if report.percent < least:
                self._failures.append(
                    f"{report.graph.name} has {report.percent:.1f} % of its transitions covered,"
                    f" {least:g} % are asked for; write tests that take the others"
                )
            if report.pairs_percent < least_pairs:
                self._failures.append(
                    f"{report.graph.name} has {report.pairs_percent:.1f} % of its pairs of transitions covered,"
                    f" {least_pairs:g} % are asked for; write tests that take the others,"
                    " or list those that cannot happen, with the reason, in the file of --chart-cov-exempt"
                )
            self._failures += map(report.disproof, report.disproved)
        if max(least, least_pairs) > 0 and not self._reports:
            self._failures.append(f"no chart was counted, and {max(least, least_pairs):g} % are asked for")
        if self._failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _table(chart: type[Any]) -> ChartTable | None:
    """The compiled table of a chart that is declared as ours are: flat, each edge with its kind."""
    try:
        return compile_chart(chart)
    except ChartCompileError:
        return None
