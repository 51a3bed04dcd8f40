"""``ScriptedHost``'s record of warnings: its own session's, all of them, whatever becomes of other hosts."""

from __future__ import annotations

import gc
import logging

import pytest

from schedule_sm.testing import ScriptedHost

pytestmark = pytest.mark.asyncio


class _Collecting(logging.Handler):
    """A handler in whose time the collector runs."""

    def emit(self, record: logging.LogRecord) -> None:
        gc.collect()


async def driven(host: ScriptedHost) -> list[str]:
    """Let ``host``'s owner drive once; return what was warned of."""
    await host.do({"do": "start"})
    warned = list(host.warnings)
    await host.do({"do": "dispose"})
    await host.owner.wait_stopped()
    return warned


async def test_a_host_collected_while_a_warning_is_logged_hides_it_from_no_other() -> None:
    gone = ScriptedHost(clock_ms=0)
    logger = logging.getLogger("schedule_sm")
    collecting = _Collecting()
    logger.addHandler(collecting)
    try:
        host = ScriptedHost(clock_ms=0, script={"flush": ["reject"]})
        del gone  # it is part of a cycle: only the collector ends it
        assert await driven(host) == ["preflight"]
    finally:
        logger.removeHandler(collecting)


async def test_warnings_are_those_of_the_own_session() -> None:
    refused, confirmed = ScriptedHost(clock_ms=0, script={"flush": ["reject"]}), ScriptedHost(clock_ms=0)
    assert await driven(refused) == ["preflight"]
    assert await driven(confirmed) == []
