"""The store's thread: jobs in order, errors to whoever awaits, an end that waits or does not."""

from __future__ import annotations

import threading

import pytest

from schedule_sm.stores.writer_thread import WriterThread


def test_jobs_run_in_order_in_one_daemon_thread() -> None:
    thread = WriterThread("t")
    gate = threading.Event()
    seen: list[int] = []
    blocked = thread.submit(gate.wait, 10)
    cancelled = thread.submit(seen.append, 0)
    assert cancelled.cancel()
    jobs = [thread.submit(seen.append, n) for n in range(1, 5)]
    failing = thread.submit(lambda: 1 / 0)
    gate.set()
    assert blocked.result(10)
    with pytest.raises(ZeroDivisionError):
        failing.result(10)
    assert all(job.done() for job in jobs)
    assert seen == [1, 2, 3, 4]
    assert thread.submit(lambda: threading.current_thread().daemon).result(10)
    thread.shutdown()
    thread.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="has ended"):
        thread.submit(seen.append, 9)
