"""Changes read from the JSON text of their events, many at once, where it is as this release writes it.

To decode and check each takes half as long again, and a session with a long history does little else when it opens.
The verdict on any other text is ``event_log.read_change``'s alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from schedule_sm.core.changes import Change, Ended, Entry
from schedule_sm.core.fields import check_instant, check_prompt
from schedule_sm.core.instants import FORM, ON_ANY_CALENDAR

_PLAIN: Final = r"[ !#-\[\]-~]"
"""What stands for itself in an ASCII JSON string."""
_ID: Final = rf'"(?! )({_PLAIN}++)(?<! )"'
_CHANGE: Final = re.compile(
    r'^\{"version":1,"operation":"(?:create","schedule":\{"id":' + _ID + r',"kind":"after",'
    rf'"prompt":"(?![ "])({_PLAIN}*+(?:\\.{_PLAIN}*+)*+)(?<! )",'
    r'"afterSeconds":([1-9][0-9]{0,14}+),'
    rf'"scheduledAt":"(?:({ON_ANY_CALENDAR})|({FORM}))"\}}'
    r'|(delete|dispatch)","id":' + _ID + r")\}\n",
    re.MULTILINE,
)
"""Id, prompt as it is written, seconds, certain instant or else another of a create; operation and id of an end."""
_COLUMNS: Final = 1 + _CHANGE.groups


def common_changes(texts: Sequence[str]) -> list[Change] | None:
    """Return the checked changes in ``texts``, each one event's ``data``; ``None`` if one is written otherwise."""
    columns = _CHANGE.split("\n".join(texts) + "\n")
    if len(columns) != _COLUMNS * len(texts) + 1 or any(columns[::_COLUMNS]):
        return None
    try:
        return [
            _entry(id_, prompt, seconds, certain, uncertain) if id_ else Ended(operation, ended)
            for id_, prompt, seconds, certain, uncertain, operation, ended in zip(
                *(columns[first::_COLUMNS] for first in range(1, _COLUMNS)), strict=True
            )
        ]
    except ValueError:
        return None


def _entry(schedule_id: str, prompt: str, seconds: str, certain: str | None, uncertain: str) -> Entry:
    if "\\" in prompt:
        prompt = check_prompt(json.loads(f'"{prompt}"'))
    return Entry(schedule_id, prompt, int(seconds), certain or check_instant(uncertain))
