"""Whether an agent is live: the registry's current agent of its id is this very object, and it is a root."""

from __future__ import annotations

from schedule_sm.host import Agent, Context
from schedule_sm.synchronous import synchronous


def is_live(ctx: Context, agent: Agent) -> bool:
    """Ask the registry; what it raises is raised."""
    current = ctx.agents.get(agent.id)
    if current is not agent:
        synchronous(current, "agents.get")
        return False
    return bool(synchronous(ctx.agents.is_root(agent), "agents.is_root"))


def is_known_departed(ctx: Context, agent: Agent) -> bool:
    """Whether the registry says that ``agent`` is no longer live; one that raises says nothing."""
    try:
        return not is_live(ctx, agent)
    except Exception:  # noqa: BLE001 - the failing registry is reported where the drive asks it
        return False
