"""A loop of one's own with durable reminders: the standard library, a fake model, and the embedded host.

Run ``python own_loop.py``. Put your client library where ``fake_model`` is.
"""

from __future__ import annotations

import asyncio
import json
import sys

from schedule_sm import ScheduleHost
from schedule_sm.adapters.turn_gate import GateRunner, TurnGate


async def fake_model(messages: list[dict], tools: list[dict]) -> dict:
    """Answer as a chat completion does: a message with text, or one with tool calls."""
    said = messages[-1]
    if said["role"] == "tool":
        return {"role": "assistant", "content": f"Done: {said['content']}"}
    if said["content"].startswith("[SCHEDULE REMINDER]"):
        words = json.loads(said["content"].split("reminder_prompt_json: ")[1])
        return {"role": "assistant", "content": f"It is time: {words}"}
    assert "schedule_create" in [tool["name"] for tool in tools]
    arguments = json.dumps({"prompt": said["content"], "after_seconds": 1})
    call = {"id": f"call-{len(messages)}", "name": "schedule_create", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def take_turns(gate: TurnGate) -> None:
    """The loop: one turn after the other, whoever began it."""
    while True:
        async with gate.next_turn():
            turn = gate.turn
            tools = {tool.name: tool for tool in turn.tools}
            shown = [
                {"name": t.name, "description": t.description, "parameters": t.parameters} for t in turn.tools
            ]
            while not turn.reply:
                answer = await fake_model([*turn.history, *turn.items], shown)
                turn.items.append(answer)
                for call in answer.get("tool_calls", ()):
                    result = await tools[call["name"]].invoke(call["arguments"], call["id"])
                    turn.items.append({"role": "tool", "tool_call_id": call["id"], "content": result.content})
                turn.reply = answer["content"] or ""


async def main(store: str) -> None:
    """Say one thing, then wait for the reminder that it led to."""
    gate = TurnGate()
    loop = asyncio.create_task(take_turns(gate))
    async with ScheduleHost.open(store, runner=GateRunner(gate)) as host:
        session = await host.session("main")
        print(await session.send("stand up"))
        async for turn in session.turns():
            if turn.is_reminder:
                print(turn.reply)
                break
    loop.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "own_loop.db"))
