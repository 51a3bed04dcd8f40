"""What the tests took of a chart and what they did not, as text, JSON, Markdown and a Mermaid diagram.

Renderings are deterministic: everything stands in the order of the declaration, tests in the order of their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schedule_sm.core.chart_table import ChartTable
from schedule_sm.testing.chart_graph import ChartGraph, EdgePair, GraphEdge
from schedule_sm.testing.chart_overlay import draw_kinds, draw_plainly
from schedule_sm.testing.chart_recorder import Tally

PAIRS_SHOWN: Final = 20
"""In the terminal; the other formats list all."""
TESTS_SHOWN: Final = 3
"""Per edge, in Markdown and the terminal; JSON lists all."""
_UNREACHABLE: Final = "no path of events reaches it"


@dataclass(frozen=True)
class ChartReport:
    """One chart's graph with its tally."""

    graph: ChartGraph
    tally: Tally
    exempt: Mapping[EdgePair, str] = field(default_factory=dict)
    """Pairs that are said not to happen, with the reason."""
    table: ChartTable | None = None
    """The chart compiled, if each of its edges states its kind: a drawing then shows the kinds."""

    @property
    def taken(self) -> tuple[GraphEdge, ...]:
        """The declared edges that a test took."""
        return tuple(edge for edge in self.graph.edges if edge in self.tally.edges)

    @property
    def missing(self) -> tuple[GraphEdge, ...]:
        """The declared edges that no test took."""
        return tuple(edge for edge in self.graph.edges if edge not in self.tally.edges)

    @property
    def undeclared(self) -> tuple[GraphEdge, ...]:
        """Edges taken that the chart does not declare: those of a subclass or of another chart of this name."""
        return tuple(sorted(set(self.tally.edges) - set(self.graph.edges)))

    @property
    def missing_states(self) -> tuple[str, ...]:
        """The states that no counted step left or entered."""
        seen = {edge.source for edge in self.taken}.union(*(map(self.graph.states_after, self.taken)))
        return tuple(state for state in self.graph.states if state not in seen)

    @property
    def missing_pairs(self) -> tuple[EdgePair, ...]:
        """The pairs of edges that no test took one after the other, but for the exempt ones."""
        pairs = self.graph.pairs()
        return tuple(pair for pair in pairs if pair not in self.tally.pairs and pair not in self.exempt)

    @property
    def disproved(self) -> tuple[EdgePair, ...]:
        """The exempt pairs that a test took."""
        return tuple(pair for pair in self.exempt if pair in self.tally.pairs)

    @property
    def percent(self) -> float:
        """The share of transitions taken; a chart without any is covered."""
        return 100.0 * len(self.taken) / len(self.graph.edges) if self.graph.edges else 100.0

    @property
    def pairs_percent(self) -> float:
        """The share of pairs taken among those that are not exempt; a chart without any is covered."""
        asked = len(self.graph.pairs()) - len(self.exempt)
        return 100.0 * (asked - len(self.missing_pairs)) / asked if asked else 100.0

    def disproof(self, pair: EdgePair) -> str:
        """Say which test took a pair that is listed as impossible."""
        tests = _some(sorted(self.tally.pairs[pair]))
        listed = f"{self.graph.name}: listed as impossible ({self.exempt[pair]})"
        return f"{listed}, but taken by {tests}: {_pair_text(pair)}"

    def count(self, edge: GraphEdge) -> int:
        """How often ``edge`` was taken."""
        return sum(self.tally.edges[edge].values()) if edge in self.tally.edges else 0

    def tests(self, edge: GraphEdge) -> list[str]:
        """The tests that took ``edge``."""
        return sorted(self.tally.edges[edge]) if edge in self.tally.edges else []

    def summary(self) -> str:
        """Return the counts in one line."""
        states, pairs = len(self.graph.states), len(self.graph.pairs()) - len(self.exempt)
        exempt = f" ({len(self.exempt)} more cannot happen)" if self.exempt else ""
        return (
            f"{self.graph.name}: transitions {len(self.taken)}/{len(self.graph.edges)} = {self.percent:.1f} %,"
            f" states {states - len(self.missing_states)}/{states},"
            f" pairs {pairs - len(self.missing_pairs)}/{pairs}{exempt}"
        )


def render_term(report: ChartReport) -> str:
    """Return the summary and what is missing, a line each."""
    return "\n".join([report.summary(), *(f"  {line}" for line in _missing_lines(report, PAIRS_SHOWN))])


def render_tests(report: ChartReport) -> str:
    """Return, per edge taken, how often and by which tests."""
    return "\n".join(
        f"  taken: {edge}  x{report.count(edge)} by {_some_tests(report, edge)}" for edge in report.taken
    )


def render_json(reports: Sequence[ChartReport], notes: Sequence[str]) -> str:
    """Return everything, with each edge's tests and counts."""
    document = {"charts": [_chart_json(report) for report in reports], "notes": list(notes)}
    return json.dumps(document, indent=2, ensure_ascii=False)


def render_markdown(report: ChartReport) -> str:
    """Return a page: summary, table of edges with their tests, and what is missing."""
    lines = [f"## {report.graph.title}", "", report.summary(), "", "| from | event | to | taken | by |"]
    lines.append("|---|---|---|---|---|")
    for edge in report.graph.edges:
        row = [edge.source, edge.event, edge.target, str(report.count(edge)), _some_tests(report, edge)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    missing = [f"- {line}" for line in _missing_lines(report, None)]
    exempt = [f"- cannot happen: {_pair_text(pair)}: {why}" for pair, why in report.exempt.items()]
    if missing or exempt:
        lines += ["", *missing, *exempt]
    return "\n".join(lines)


def render_mermaid(report: ChartReport) -> str:
    """Return a Mermaid flowchart with counts on the edges, the summary in its first line."""
    if report.table is None:
        return f"%% {report.summary()}\n{draw_plainly(report.graph, report.count)}"
    return f"%% {report.summary()}\n{draw_kinds(report.table, report.count)}"


PER_CHART: Final[dict[str, Callable[[ChartReport], str]]] = {
    "term": render_term,
    "md": render_markdown,
    "mermaid": render_mermaid,
}


def render(format_: str, reports: Sequence[ChartReport], notes: Sequence[str]) -> str:
    """Return all charts in one format of ``--chart-cov-report``, ending with a newline."""
    if format_ == "json":
        return render_json(reports, notes) + "\n"
    if format_ == "mermaid":
        drawings = [f"{render_mermaid(report)}\n" for report in reports]
        # Mermaid reads one diagram from a file: several are written as Markdown
        return drawings[0] if len(drawings) == 1 else "\n".join(f"```mermaid\n{one}```\n" for one in drawings)
    remarks = [f"{'> ' if format_ == 'md' else ''}{note}" for note in notes]
    blocks = [PER_CHART[format_](report) for report in reports]
    gap = "\n\n" if format_ == "md" else "\n"
    return gap.join([*blocks, *remarks]) + "\n"


def _missing_lines(report: ChartReport, pairs_shown: int | None) -> Iterator[str]:
    paths = report.graph.shortest_paths()
    for state in report.missing_states:
        yield f"state not reached: {state}"
    for edge in report.missing:
        yield f"not taken: {edge}; reach it: {_path_text(paths.get(edge))}"
    pairs = report.missing_pairs
    for first, then in pairs[:pairs_shown]:
        to_first = paths.get(first)
        path = (*to_first, then) if to_first is not None else None
        yield f"pair not taken: {_pair_text((first, then))}; reach it: {_path_text(path)}"
    if pairs_shown is not None and len(pairs) > pairs_shown:
        yield f"and {len(pairs) - pairs_shown} more pairs; --chart-cov-report=md lists them"
    for edge in report.undeclared:
        yield f"taken, but not declared by this chart: {edge}"


def _path_text(path: tuple[GraphEdge, ...] | None) -> str:
    return _UNREACHABLE if path is None else ", ".join(edge.event for edge in path)


def _pair_text(pair: EdgePair) -> str:
    first, then = pair
    return f"{first}, then --{then.event}--> {then.target}"


def _some_tests(report: ChartReport, edge: GraphEdge) -> str:
    return _some(report.tests(edge))


def _some(tests: list[str]) -> str:
    more = len(tests) - TESTS_SHOWN
    return ", ".join(tests[:TESTS_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _chart_json(report: ChartReport) -> dict[str, Any]:
    graph, paths = report.graph, report.graph.shortest_paths()

    def path_to(*edges: GraphEdge) -> list[str] | None:
        to_first = paths.get(edges[0])
        return None if to_first is None else [edge.event for edge in (*to_first, *edges[1:])]

    return {
        "chart": graph.name,
        "percent": round(report.percent, 2),
        "states": {"declared": list(graph.states), "missing": list(report.missing_states)},
        "transitions": [
            edge._asdict() | {"count": report.count(edge), "tests": report.tests(edge), "path": path_to(edge)}
            for edge in graph.edges
        ],
        "pairs": [
            {
                "first": first._asdict(),
                "then": then._asdict(),
                "count": sum(report.tally.pairs.get((first, then), {}).values()),
                "exempt": report.exempt.get((first, then)),
                "path": path_to(first, then),
            }
            for first, then in graph.pairs()
        ],
        "undeclared": [edge._asdict() for edge in report.undeclared],
    }
