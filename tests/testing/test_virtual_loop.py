"""The loop's clock is a number; quiet is exact, threads get real time, and a stuck run says what it waits for."""

import asyncio
import sys
import threading
import time

import pytest

from schedule_sm.testing.travel import START, StuckError, VirtualLoop, run_virtual

START_MS = int(START.timestamp() * 1000)
YEAR_S = 365 * 86_400


async def note_when(seconds, notes):
    await asyncio.sleep(seconds)
    notes.append((seconds, time.time_ns() // 1_000_000 - START_MS))


@pytest.mark.asyncio
@pytest.mark.parametrize("years", [1, 50, 200])
async def test_timer_runs_after_years_of_loop_time(travel, years):
    """A float of seconds has no nanoseconds left after 97 days: asyncio would spin without firing."""
    notes = []
    await travel(years * YEAR_S + 0.123456)
    task = asyncio.create_task(note_when(0.25, notes))
    assert await travel.to_next_timer() == pytest.approx(0.25, abs=1e-5)
    assert task.done()
    assert notes[0][1] == pytest.approx(years * YEAR_S * 1000 + 373, abs=1)


@pytest.mark.asyncio
async def test_jobs_in_threads_are_waited_for_in_real_time(travel):
    notes = []

    async def worker():
        await asyncio.to_thread(time.sleep, 0.05)
        await asyncio.sleep(1)
        await asyncio.to_thread(time.sleep, 0.05)
        notes.append(travel.now_ms - START_MS)

    task = asyncio.create_task(worker())
    await travel(1)
    assert notes == [1000]
    assert task.done()


class WriterThread:
    """A thread that the loop did not start and that answers by ``call_soon_threadsafe``."""

    def __init__(self):
        self.open_jobs = 0
        self.answers = []

    def submit(self):
        self.open_jobs += 1
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(loop,)).start()

    def _work(self, loop):
        time.sleep(0.05)
        loop.call_soon_threadsafe(self._answer)

    def _answer(self):
        self.answers.append(time.time())
        self.open_jobs -= 1


@pytest.mark.asyncio
async def test_counted_jobs_of_a_foreign_thread_are_waited_for(travel):
    writer = WriterThread()
    dispose = travel.count_jobs(lambda: writer.open_jobs)
    writer.submit()
    await travel(5)
    assert writer.answers == [START.timestamp()], "answered before a clock moved"
    dispose()


@pytest.mark.asyncio
async def test_until_waits_for_an_uncounted_thread(travel):
    writer = WriterThread()
    writer.submit()
    await travel.settle()
    assert writer.answers == []
    await travel.until(lambda: bool(writer.answers))
    assert travel.now_ms == START_MS


@pytest.mark.asyncio
async def test_until_gives_up_with_a_report(travel):
    travel.loop.patience_s = 0.02
    with pytest.raises(StuckError, match=r"nothing came from 1 job\(s\) in threads in 0.02 real seconds"):
        await travel.until(lambda: False)
    await travel(1)


@pytest.mark.asyncio
async def test_child_process_answers_in_real_time(travel):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print('hello')", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.strip() == b"hello"
    await travel(1)


@pytest.mark.asyncio
async def test_timeout_runs_out_in_virtual_time(travel):
    async def too_long():
        async with asyncio.timeout(5):
            await asyncio.Event().wait()

    task = asyncio.create_task(too_long())
    await travel(4.999)
    assert not task.done()
    await travel(0.001)
    assert isinstance(task.exception(), TimeoutError)


@pytest.mark.asyncio
async def test_cancelled_timers_are_no_stops(travel):
    handle = asyncio.get_running_loop().call_later(5, lambda: None)
    handle.cancel()
    with pytest.raises(StuckError, match="no timer is armed"):
        await travel.to_next_timer()
    await travel(10)


@pytest.mark.asyncio
async def test_ten_thousand_timers_cost_little(travel):
    fired = []
    loop = asyncio.get_running_loop()
    for number in range(10_000):
        loop.call_later(number % 997, fired.append, number)
    await travel(1000)
    assert len(fired) == 10_000


@pytest.mark.asyncio
async def test_loop_that_never_rests_is_reported(travel, monkeypatch):
    monkeypatch.setattr("schedule_sm.testing.virtual_loop.TURNS_WITHOUT_QUIET", 1000)

    async def spin():
        while True:  # noqa: ASYNC110 - the mistake that is tested
            await asyncio.sleep(0)

    task = asyncio.create_task(spin(), name="spinner")
    with pytest.raises(StuckError, match=r"not come to rest in 1000 turns.*(?s:.*)spinner awaits:"):
        await travel.settle()
    task.cancel()


@pytest.mark.asyncio
async def test_loop_clock_never_goes_back(travel):
    with pytest.raises(ValueError, match="cannot go"):
        travel.loop.move_to(1.0)


@pytest.mark.asyncio
async def test_other_tests_keep_the_real_loop():
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    assert time.time() < START.timestamp()


def test_stuck_run_lists_what_each_task_awaits():
    async def waits_for_ever(travel):
        async def nap():
            await asyncio.sleep(90)

        travel.loop.patience_s = 0.05  # for a thread that another test may have left
        task = asyncio.create_task(nap(), name="napper")
        await task

    with pytest.raises(StuckError) as caught:
        run_virtual(waits_for_ever)
    report = str(caught.value)
    assert "`await travel(90)` would run it" in report
    assert "napper awaits:" in report
    assert "waits_for_ever.<locals>.nap (testing/test_virtual_loop.py:" in report
    assert "sleep (asyncio/tasks.py:" in report


def test_stuck_run_beside_an_idle_thread_gives_up_when_patience_ends():
    """The thread might still answer, so it is given real time, but not for ever."""

    async def waits_after_a_job(travel):
        await asyncio.to_thread(int)
        travel.loop.patience_s = 0.05
        await asyncio.sleep(10)

    with pytest.raises(StuckError, match=r"nothing came from threads or I/O in 0\.05"):
        run_virtual(waits_after_a_job)


def test_job_that_never_ends_fails_the_journey_that_waits_for_it():
    async def main(travel):
        release = threading.Event()
        job = asyncio.ensure_future(asyncio.to_thread(release.wait))
        travel.loop.patience_s = 0.05
        with pytest.raises(StuckError, match=r"nothing came from 1 job\(s\) in threads"):
            await travel(1)
        release.set()
        await job

    run_virtual(main)


def test_answer_of_a_thread_that_ends_right_behind_the_last_look_is_not_missed(monkeypatch):
    async def main(travel):
        answer = travel.loop.create_future()
        thread = threading.Thread(target=travel.loop.call_soon_threadsafe, args=(answer.set_result, "late"))
        count = threading.active_count

        def ends_before_it_is_counted():
            if not thread.ident:
                thread.start()
                thread.join()
            return count()

        monkeypatch.setattr(threading, "active_count", ends_before_it_is_counted)
        assert await answer == "late"

    run_virtual(main)
