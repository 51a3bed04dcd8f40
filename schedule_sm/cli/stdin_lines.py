"""Lines of stdin, read in a thread of their own that nobody waits for at the end of the program."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import sys
from concurrent.futures import Future
from typing import Final

from schedule_sm.stores.writer_thread import WriterThread

_CHUNK: Final = 65_536


class StdinLines:
    """UTF-8 lines; bytes that are no text are replaced."""

    def __init__(self) -> None:
        """Start the thread; it reads only while somebody waits for a line."""
        self._thread = WriterThread("schedule-sm stdin")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reading: Future[bytes] | None = None
        self._parts = [""]
        self._is_at_end = False

    async def read(self) -> str | None:
        """Return the next line without its end, ``None`` at the end of input; the last line needs no line feed."""
        while "\n" not in self._parts[-1] and not self._is_at_end:
            self._reading = self._thread.submit(_read_chunk)
            chunk = await asyncio.wrap_future(self._reading)
            self._is_at_end = not chunk
            self._parts.append(self._decoder.decode(chunk, final=not chunk))
        line, end, rest = "".join(self._parts).partition("\n")
        self._parts = [rest]
        return line.removesuffix("\r") if line or end else None

    def close(self) -> None:
        """Read no more; a thread that waits for input is left behind, as one told to end would be waited for."""
        if self._reading is None or self._reading.done():
            self._thread.shutdown(wait=False)


def _read_chunk() -> bytes:
    """Return what stdin has, empty at its end; a lock of a buffered reader would be held when the program ends."""
    try:
        return os.read(sys.stdin.fileno(), _CHUNK)
    except (AttributeError, io.UnsupportedOperation):  # closed, or a test's
        return b"" if sys.stdin is None else sys.stdin.buffer.readline()
    except OSError:
        return b""
