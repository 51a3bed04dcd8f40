"""The plugin counts what tests take of anybody's charts, says what is missing and how to reach it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schedule_sm.core import cursor

pytest_plugins = ["pytester"]

PLUGIN = "schedule_sm.testing.transition_coverage"
LOAD = ["-p", PLUGIN]  # also when it is installed as an entry point: one of the two gives way
QUIET = ["-p", "no:randomly", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]

WORKERS_TIMEOUT_S = 60
"""Each worker is a Python of its own, which a busy machine starts slowly."""

TESTS = """
    import asyncio
    import pytest
    from parcels import ParcelChart, CourierChart, AsyncChart

    def test_delivery():
        parcel = ParcelChart()
        parcel.send_off()
        parcel.scan()
        parcel.hand_over()

    def test_refused():
        parcel = ParcelChart()
        with pytest.raises(parcel.TransitionNotAllowed):
            parcel.send("lose")
        parcel.send("send_off")

    @pytest.mark.no_chart_cov
    def test_sweep():
        parcel = ParcelChart(start_value="sent")
        parcel.lose()

    def test_coroutines():
        async def main():
            chart = AsyncChart()
            await chart.activate_initial_state()
            await chart.start()
        asyncio.run(main())
"""


@pytest.fixture
def project(pytester):
    """Another project: its charts, its tests, and nothing of ours but the plugin."""
    source = Path(__file__).with_name("parcel_charts.py").read_text(encoding="utf-8")
    pytester.makepyfile(parcels=source, test_parcels=TESTS)
    pytester.syspathinsert()
    return pytester


def run(project, *options):
    return project.runpytest_inprocess(*LOAD, *QUIET, "--strict-markers", *options)


def read_json(project, *options):
    run(project, "--chart-cov-report=json:out.json", *options)
    document = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    return {chart["chart"]: chart for chart in document["charts"]}


def counts(chart):
    return {
        f"{edge['source']} {edge['event']} {edge['target']}": edge["count"] for edge in chart["transitions"]
    }


def test_terminal_report_names_what_is_missing_and_the_shortest_way_there(project):
    result = run(project, "--chart-cov=parcels:ParcelChart")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "parcels:ParcelChart: transitions 3/5 = 60.0 %, states 3/4, pairs 2/*",
            "  state not reached: lost",
            "  not taken: packed --send_off--> packed; reach it: send_off",
            "  not taken: sent --lose--> lost; reach it: send_off, lose",
            "  pair not taken: sent --scan--> sent, then --lose--> lost; reach it: send_off, scan, lose",
        ]
    )


def test_without_the_option_nothing_is_counted_or_imported(project):
    """In a fresh process: the entry point itself imports no other module of ours."""
    project.makepyfile(
        test_off="""
        import sys

        def test_nothing_of_the_recorder_is_loaded():
            assert not [name for name in sys.modules if name.startswith("schedule_sm.testing.chart_")]
            from statemachine.engines.sync import SyncEngine
            assert "_enter_states" not in vars(SyncEngine)
    """
    )
    root = str(Path(__file__).parents[2])
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", *LOAD, *QUIET, "test_off.py"],
        cwd=project.path, env={"PYTHONPATH": root, "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in outcome.stdout, outcome.stdout + outcome.stderr
    assert "transition coverage" not in outcome.stdout


def test_json_report_lists_tests_counts_and_paths(project):
    chart = read_json(project, "--chart-cov=parcels:ParcelChart")["parcels:ParcelChart"]
    edges = {(edge["source"], edge["event"]): edge for edge in chart["transitions"]}
    assert edges["sent", "scan"]["tests"] == ["test_parcels.py::test_delivery"]
    assert edges["sent", "lose"] == {
        "source": "sent", "event": "lose", "target": "lost", "count": 0, "tests": [], "path": ["send_off", "lose"]
    }  # fmt: skip
    assert counts(chart)["packed send_off sent"] == 2
    taken = {(pair["first"]["event"], pair["then"]["event"]) for pair in chart["pairs"] if pair["count"]}
    assert taken == {("send_off", "scan"), ("scan", "hand_over")}
    assert chart["percent"] == 60.0


def test_marked_tests_do_not_count(project):
    chart = read_json(project, "--chart-cov=parcels:ParcelChart")["parcels:ParcelChart"]
    assert counts(chart)["sent lose lost"] == 0


def test_bare_option_counts_every_chart_that_took_a_step(project):
    charts = read_json(project, "--chart-cov")
    assert set(charts) == {"parcels:ParcelChart", "parcels:AsyncChart"}
    assert counts(charts["parcels:AsyncChart"]) == {"idle start busy": 1, "busy stop idle": 0}


def test_bare_option_takes_the_charts_of_the_ini_file(project):
    project.makeini("[pytest]\nchart_cov = parcels:CourierChart")
    assert set(read_json(project, "--chart-cov")) == {"parcels:CourierChart"}


@pytest.mark.parametrize("spec", ["parcels.ParcelChart,DeliveryChart", "parcels:ParcelChart,DeliveryChart"])
def test_charts_are_named_by_path_or_by_a_class_of_ours(project, spec):
    charts = read_json(project, f"--chart-cov={spec}")
    assert set(charts) == {"parcels:ParcelChart", "schedule_sm.core.charts:DeliveryChart"}
    assert charts["schedule_sm.core.charts:DeliveryChart"]["percent"] == 0


@pytest.mark.parametrize(
    "spec", ["parcels:NoSuch", "no_such_module:Chart", "parcels:State.Builder", "Nope", "tests/"]
)
def test_unknown_chart_is_a_usage_error_that_says_what_to_write(project, spec):
    result = run(project, f"--chart-cov={spec}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*--chart-cov: '{spec}' names no chart*package.module:Class*DeliveryChart*"]
    )


def test_unknown_format_is_a_usage_error(project):
    result = run(project, "--chart-cov", "--chart-cov-report=html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'html' is none of term, json, md, mermaid*"])


@pytest.mark.parametrize(("least", "code"), [(60, 0), (60.1, 1)])
def test_threshold_fails_the_run(project, least, code):
    result = run(project, "--chart-cov=parcels:ParcelChart", f"--chart-cov-fail-under={least}")
    assert result.ret == code
    if code:
        result.stdout.fnmatch_lines(
            ["FAILED: parcels:ParcelChart has 60.0 % of its transitions covered, 60.1 %*"]
        )


def test_threshold_without_any_chart_fails_the_run(project):
    result = run(project, "--chart-cov", "--chart-cov-fail-under=1", "-k", "sweep")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no counted test stepped a chart*", "FAILED: no chart was counted*"])


def test_reports_are_repeatable_and_go_to_files(project):
    result = run(
        project, "-v", "--chart-cov=parcels:ParcelChart", "--chart-cov-report=term",
        "--chart-cov-report=mermaid", "--chart-cov-report=md:cov.md", "--chart-cov-report=mermaid:cov.mmd",
    )  # fmt: skip
    result.stdout.fnmatch_lines(
        [
            "  taken: packed --send_off--> sent  x2 by test_parcels.py::test_delivery, test_parcels.py::test_refused",
            "flowchart LR",
            "md written to cov.md",
        ]
    )
    page = (project.path / "cov.md").read_text(encoding="utf-8")
    assert "| sent | scan | sent | 1 | test_parcels.py::test_delivery |" in page
    assert "- not taken: sent --lose--> lost; reach it: send_off, lose" in page
    drawing = (project.path / "cov.mmd").read_text(encoding="utf-8")
    assert 's0 -->|"send_off ×2"| s1' in drawing
    assert 's1 -.->|"lose ×0"| s3' in drawing
    assert 's2(["delivered"])' in drawing
    assert "linkStyle 1,4 stroke" in drawing


def test_collect_only_reports_nothing(project):
    result = run(project, "--chart-cov", "--collect-only", "--chart-cov-report=md:cov.md")
    assert not (project.path / "cov.md").exists()
    result.stdout.no_fnmatch_line("*transition coverage*")


def test_taps_are_taken_off_after_the_session(project):
    from statemachine.engines.async_ import AsyncEngine
    from statemachine.engines.base import BaseEngine

    def taps():
        engines = (BaseEngine._enter_states, AsyncEngine._enter_states)
        return (*engines, cursor.Cursor.step, len(cursor.ALL_STEPS.own))

    before = taps()
    run(project, "--chart-cov")
    assert taps() == before


@pytest.mark.slow
@pytest.mark.timeout(WORKERS_TIMEOUT_S)
def test_workers_are_merged(project):
    pytest.importorskip("xdist")
    alone = read_json(project, "--chart-cov=parcels:ParcelChart,parcels:AsyncChart")
    merged = read_json(project, "--chart-cov=parcels:ParcelChart,parcels:AsyncChart", "-n2")
    assert merged == alone


@pytest.mark.slow
@pytest.mark.timeout(WORKERS_TIMEOUT_S)
def test_charts_seen_by_workers_are_reported_by_the_controller(project):
    pytest.importorskip("xdist")
    assert set(read_json(project, "--chart-cov", "-n1")) == {"parcels:ParcelChart", "parcels:AsyncChart"}


@pytest.mark.slow
@pytest.mark.timeout(WORKERS_TIMEOUT_S)
def test_crashed_worker_is_reported(project):
    pytest.importorskip("xdist")
    project.makepyfile(test_crash="import os\n\ndef test_crash():\n    os._exit(3)\n")
    result = run(project, "--chart-cov=parcels:ParcelChart", "-n1", "test_crash.py")
    result.stdout.fnmatch_lines(["worker gw0 sent no counts (it crashed?): the figures are too low"])


@pytest.mark.slow
@pytest.mark.timeout(WORKERS_TIMEOUT_S)
def test_chart_local_to_a_test_is_named_when_a_worker_saw_it(project):
    pytest.importorskip("xdist")
    project.makepyfile(
        test_local="""
        from statemachine import State, StateChart

        def test_local():
            class Local(StateChart):
                a = State(initial=True)
                b = State(final=True)
                go = a.to(b)
            Local().go()
    """
    )
    result = run(project, "--chart-cov", "-n1", "test_local.py")
    result.stdout.fnmatch_lines(["*'test_local:test_local.<locals>.Local' names no chart*"])
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("how", ["-p", "conftest"])
def test_naming_the_installed_plugin_again_is_no_error(project, how):
    project.makeconftest(f'pytest_plugins = ["{PLUGIN}"]' if how == "conftest" else "")
    result = project.runpytest_inprocess(*(LOAD if how == "-p" else []), *QUIET, "--strict-markers")
    result.assert_outcomes(passed=4)


EXEMPT = """
[[pair]]
chart = "{chart}"
first = {first}
then = {then}
reason = "{reason}"
"""
LOOP, SENT = "packed --send_off--> packed", "packed --send_off--> sent"


def exempt(project, *, first=f"'{LOOP}'", then=f"['{LOOP}', '{SENT}']", **other):
    text = EXEMPT.format(
        first=first, then=then, **{"chart": "parcels:ParcelChart", "reason": "it stays heavy"} | other
    )
    (project.path / "exempt.toml").write_text(text, encoding="utf-8")
    return ["--chart-cov=parcels:ParcelChart", "--chart-cov-exempt=exempt.toml"]


def test_exempt_pairs_are_neither_covered_nor_missing(project):
    options = exempt(project)
    run(project, *options, "--chart-cov-report=md:cov.md", "--chart-cov-report=json:cov.json")
    page = (project.path / "cov.md").read_text(encoding="utf-8")
    assert "pairs 2/6 (2 more cannot happen)" in page
    assert f"- pair not taken: {LOOP}" not in page
    assert f"- cannot happen: {LOOP}, then --send_off--> sent: it stays heavy" in page
    pairs = json.loads((project.path / "cov.json").read_text(encoding="utf-8"))["charts"][0]["pairs"]
    assert [pair["exempt"] for pair in pairs if pair["exempt"]] == ["it stays heavy"] * 2


def test_exempt_pair_that_is_taken_fails_the_run_and_names_the_test(project):
    result = run(project, *exempt(project, first=f"'{SENT}'", then="'sent --scan--> sent'"))
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "FAILED: parcels:ParcelChart: listed as impossible (it stays heavy), but taken by"
            " test_parcels.py::test_delivery: packed --send_off--> sent, then --scan--> sent"
        ]
    )


@pytest.mark.parametrize(("least", "code"), [(33, 0), (34, 1)])
def test_threshold_for_pairs_leaves_the_exempt_ones_out(project, least, code):
    result = run(project, *exempt(project), f"--chart-cov-pairs-fail-under={least}")
    assert result.ret == code
    if code:
        result.stdout.fnmatch_lines(
            ["FAILED: parcels:ParcelChart has 33.3 % of its pairs *--chart-cov-exempt*"]
        )


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"chart": "parcels:NoSuch"}, "pair 1: 'parcels:NoSuch' names no chart*"),
        ({"reason": " "}, "pair 1: chart, first, then and reason are needed*"),
        ({"first": "[]"}, "pair 1: chart, first, then and reason are needed*"),
        ({"then": "[1]"}, "pair 1: chart, first, then and reason are needed*"),
        ({"then": "'sent --scan--> sent'"}, f"pair 1: {LOOP} then sent --scan--> sent is no pair of parcels:Parcel*"),
        ({"then": f"['{SENT}', '{SENT}']"}, f"pair 1: {LOOP} then {SENT} is listed twice"),
        ({"then": "["}, "cannot be read (*"),
        ({"then": "'x'\n[more]\nx = 1"}, "may hold [[][[]pair]] tables and nothing else"),
    ],
)  # fmt: skip
def test_exemptions_that_cannot_be_used_are_a_usage_error(project, wrong, complaint):
    result = run(project, *exempt(project, **wrong))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--chart-cov-exempt: *exempt.toml*{complaint}"])


def test_missing_file_of_exemptions_is_a_usage_error(project):
    result = run(project, "--chart-cov=parcels:ParcelChart", "--chart-cov-exempt=nowhere.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--chart-cov-exempt: 'nowhere.toml' cannot be read (*"])
