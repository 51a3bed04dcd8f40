"""Names, order, descriptions and schemas are constants: a model's cached prefix survives."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from schedule_sm import tool_catalog as catalog
from schedule_sm.core.errors import ERROR_CODES
from schedule_sm.testing import ScriptedHost
from schedule_sm.tools import register_schedule_tools


def offered(host):
    dispose = register_schedule_tools(host.ctx, host.agent, host)
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "output_schema": tool.output_schema,
        }
        for tool in host.agent.ctx.tools.by_name.values()
    ]
    dispose()
    return tools


def test_committed_file_is_what_the_code_writes():
    assert catalog.main(["--check"]) == 0


def test_check_says_what_to_do_about_a_stale_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "tool_catalog.py"))
    assert catalog.main(["--check"]) == 1
    assert "python -m schedule_sm.tool_catalog" in capsys.readouterr().err
    assert catalog.main([]) == 0
    assert catalog.main(["--check"]) == 0
    (tmp_path / catalog.CATALOG_FILE).write_text("{}\n", encoding="utf-8")
    assert catalog.main(["--check"]) == 1


@pytest.mark.asyncio
async def test_every_agent_is_shown_the_same_bytes_and_in_the_same_order():
    first, second = (offered(ScriptedHost(clock_ms=clock_ms)) for clock_ms in (0, 10**12))
    assert json.dumps(first) == json.dumps(second) == json.dumps(list(catalog.tool_catalog().values()))
    assert [tool["name"] for tool in first] == list(catalog.TOOL_NAMES)


@pytest.mark.asyncio
async def test_what_one_host_does_to_a_schema_reaches_no_other_agent():
    before = json.dumps(offered(ScriptedHost(clock_ms=0)))
    mangled = offered(ScriptedHost(clock_ms=0))
    mangled[0]["parameters"]["properties"].clear()
    mangled[0]["output_schema"].clear()
    assert json.dumps(offered(ScriptedHost(clock_ms=0))) == before


@pytest.mark.slow
def test_another_process_with_another_hash_seed_writes_the_same_bytes():
    code = "from schedule_sm.tool_catalog import render_catalog; print(render_catalog(), end='')"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu"},
    )
    assert run.stdout == catalog.render_catalog()


def test_argument_schemas_are_permissive():
    """The tool is the only judge; else invalid_selector and invalid_rule could not be reached."""
    for tool in catalog.tool_catalog().values():
        text = json.dumps(tool["parameters"])
        for narrowing in (
            "additionalProperties",
            "minimum",
            "exclusiveMinimum",
            "integer",
            "pattern",
            "minLength",
        ):
            assert narrowing not in text


def test_output_schemas_name_the_closed_codes_and_every_description_says_what_to_do_after_an_error():
    for tool in catalog.tool_catalog().values():
        error = tool["output_schema"]["anyOf"][-1]
        assert error["properties"]["code"]["enum"] == list(ERROR_CODES)
        assert list(error["properties"]) == ["code", "message", "operation", "id"]
        assert "persistence_uncertain" in tool["description"]
    create = catalog.tool_catalog()["schedule_create"]
    assert "seconds" in create["description"]
    assert "not live" in create["description"]
