"""Session files as a store writes them, and what can befall them: strategies for the tests that read them back."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from schedule_sm.stores.jsonl_lines import event_lines, meta_line
from schedule_sm.stores.protocol import SessionInfo, StoredEvent

FIRST = SessionInfo("main", 0, None, 1, 0, None, 5)
COMMON_TYPES = ["schedule/change", "a"]
LINE_IN_BODY = event_lines([StoredEvent(1, "a", 2, "{}")], None).decode().strip()


def sealed(text: bytes) -> bytes:
    return b'%b,"crc":"%08x"}\n' % (text, zlib.crc32(text))


def resealed(line: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the line changed by somebody who knows of the checksum."""
    return sealed(change(line[: line.rindex(b',"crc":"')] if b',"crc":"' in line else line))


bodies = st.one_of(
    st.sampled_from(
        [
            "{}",
            "",
            "null",
            "[1]",
            "[\n1]",
            '"ü"',
            '{"a":1,"crc":"00000000"}',
            '1,"crc":"00000000"}',
            "\0",
            "a\rb",
        ]
    ),
    st.sampled_from([LINE_IN_BODY, f'{{"x":{LINE_IN_BODY}}}', '{"seq":0,"time":1,"data":{}}']),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2).map(json.dumps),
    st.text(max_size=8),
)
types = st.one_of(
    st.sampled_from(
        [*COMMON_TYPES, 'quo"te', "back\\slash", "trailing\\", 'a","time":1,"data":2', "ü", "\n", ""]
    ),
    st.text(max_size=4),
)


@st.composite
def logs(draw: st.DrawFn, *, plain: bool = False) -> list[bytes]:
    """Lines of a session as a store writes them: batches, acquisitions, changes of ``wake_at``, maybe a fork."""
    info = FIRST
    lines = [meta_line(info)]
    for _ in range(draw(st.integers(0, 6))):
        wake_at = draw(st.sampled_from([None, 0, -3, 7, 1796202970781]))
        kind = draw(st.sampled_from(["events", "events", "acquired", "woken", "fork"]))
        count = draw(st.integers(1, 4)) if kind in ("events", "fork") else 0
        if kind == "acquired":
            info = replace(info, epoch=info.epoch + 1)
        elif kind == "woken":
            info = replace(info, wake_at=wake_at)
        events = [
            StoredEvent(
                info.next_seq + n,
                draw(st.sampled_from(COMMON_TYPES) if plain else types),
                draw(st.sampled_from([0, -1, 1796202970476])),
                draw(st.just('{"n":1}') if plain else bodies),
            )
            for n in range(count)
        ]
        if kind == "fork" and not info.next_seq:
            info = replace(info, seed_length=count, parent='p"}', next_seq=count, wake_at=wake_at)
            lines.append(meta_line(info))
        elif kind in ("acquired", "woken"):
            lines.append(meta_line(info))
        lines += event_lines(events, wake_at).splitlines(keepends=True) if events else []
        if events:
            info = replace(info, wake_at=wake_at, next_seq=events[-1].seq + 1)
    return lines


def changed_number(key: bytes, by: int) -> Callable[[bytes], bytes]:
    def change(text: bytes) -> bytes:
        return re.sub(b'"%b":(-?[0-9]+)' % key, lambda m: b'"%b":%d' % (key, int(m[1]) + by), text, count=1)

    return change


def rewritten(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda text: text.replace(old, new, 1)


CHANGES = [
    *(
        changed_number(key, by)
        for key in (b"seq", b"last", b"epoch", b"wake_at", b"time")
        for by in (-2, -1, 1, 3)
    ),
    rewritten(b'"seq":', b'"seq":0'),
    rewritten(b'"seq":', b'"seq":+'),
    rewritten(b'"last":', b'"last": '),
    rewritten(b'"last":', b'"last":9999999999999999999'),
    rewritten(b'"time":', b'"time":' + b"9" * 20),
    rewritten(b'"time":', b'"time":' + b"9" * 5_000),  # more digits than Python makes a number of
    rewritten(b'"time":', b'"time":1_0'),
    rewritten(b'"time":', b'"time":--'),
    rewritten(b'"time"', b'"tame"'),
    rewritten(b'"wake_at":', b'"wake_at":x'),
    rewritten(b'"wake_at":', b'"wake_at":"y'),
    rewritten(b'"type":"', b'"type":"\t'),
    rewritten(b'"type":"', b'"type":"\xff'),
    rewritten(b'"type":"', b'"type":"\xc3\xbc'),
    rewritten(b'"type":"', b'"type":"\\'),
    rewritten(b'"type":"', b'"type":"a","b":"'),
    rewritten(b'"type":', b'"type":5'),
    rewritten(b'"data":', b'"text":'),
    rewritten(b'"data":', b'"data":\xff'),
    rewritten(b'"data"', b'"date"'),
    rewritten(b'{"seq"', b'{ "seq"'),
    rewritten(b'{"seq"', b'{"sew"'),
    rewritten(b'{"session":"main"', b'{"session":"else"'),
    rewritten(b'{"session"', b'{"seq":0,"session"'),
    rewritten(b'{"session"', b'{"session":1,"time":2,"data":3,"session"'),
    rewritten(b'"epoch":', b'"epoch":1.5,"e":'),
    rewritten(b'"created_at"', b'"made_at"'),
    lambda text: text[:-1],
    lambda text: text + b"}",
    lambda text: text.upper(),
    lambda _: b"",
    lambda _: b"{}",
    lambda _: b'{"session":[',
]


MISHAPS = ["drop", "twice", "swap", "foreign", "reseal", "reseal", "reseal", "upper", "checksum"]


def spoil(draw: st.DrawFn, lines: list[bytes], foreign: list[bytes]) -> None:
    at, to = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    match draw(st.sampled_from(MISHAPS)):
        case "drop":
            del lines[at]
        case "twice":
            lines.insert(to, lines[at])
        case "swap":
            lines[at], lines[to] = lines[to], lines[at]
        case "foreign":
            lines.insert(at, draw(st.sampled_from(foreign)).replace(b'"main"', b'"else"'))
        case "reseal":
            lines[at] = resealed(lines[at], draw(st.sampled_from(CHANGES)))
        case "upper":
            lines[at] = lines[at].upper()
        case "checksum":
            lines[at] = lines[at].replace(b'"crc":"', b'"crc":"0')


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The bytes of a log after up to three mishaps to its lines, and one to its bytes."""
    lines = draw(logs(plain=draw(st.booleans())))
    foreign = draw(logs(plain=True))
    for _ in range(draw(st.integers(0, 3))):
        if lines:
            spoil(draw, lines, foreign)
    data = bytearray(b"".join(lines))
    mishap = draw(st.sampled_from(["none", "cut", "flip", "zeros", "tail"]))
    if data and mishap == "cut":
        del data[draw(st.integers(0, len(data))) :]
    elif data and mishap == "flip":
        data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif mishap == "zeros":
        data += bytes(draw(st.integers(1, 5)))
    elif mishap == "tail":
        data += draw(st.sampled_from([b"\n", b"\r\n", b"{", b'{"seq"', bytes(data)]))
    return bytes(data)
