"""Killed anywhere, the host comes back with everything it had confirmed, and with nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from schedule_sm.stores.failpoints import FAILPOINTS
from schedule_sm.stores.jsonl_reader import JsonlReader
from schedule_sm.stores.sqlite_reader import SqliteReader
from tests.crash.campaign import Campaign, random_kills
from tests.crash.forgetful import judge_window
from tests.crash.judge import facts, read_logs
from tests.crash.kinds import KINDS, place_of
from tests.crash.life import Plan, Witness
from tests.crash.nursery import Nursery, nursery

MEMORY = Path("/dev/shm")
SEED = 7
"""A course of things that passes every failpoint; the first test says so."""


@pytest.fixture(scope="module")
def started() -> Iterator[Nursery]:
    """A nursery takes most of a second to start: one for all."""
    with nursery() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: what survives a SIGKILL does not depend on the disk, how long it takes does."""
    with TemporaryDirectory(prefix="schedule-sm-crash.", dir=MEMORY if MEMORY.is_dir() else None) as place:
        yield Path(place)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def hits(started: Nursery, kind: str) -> Counter[str]:
    """How often a life that is not killed passes each failpoint."""
    with TemporaryDirectory(prefix="schedule-sm-crash.") as place:
        campaign = Campaign(started, Path(place), 1, kind)
        assert campaign.live(seed=SEED) is False
        return campaign.hits()


@pytest.mark.timeout(60)  # real processes: one start, then a fork of some 0.1 s each
def test_a_life_without_a_kill_passes_every_failpoint(hits: Counter[str]) -> None:
    assert hits.keys() == set(FAILPOINTS)


@pytest.mark.parametrize("name", FAILPOINTS)
@pytest.mark.timeout(60)  # real processes: three forks of some 0.1 s each, more under load
def test_killed_at_a_failpoint_nothing_is_lost_and_nothing_comes_twice(
    started: Nursery, hits: Counter[str], folder: Path, kind: str, name: str
) -> None:
    campaign = Campaign(started, folder, 1, kind)
    assert campaign.live(name, (hits[name] + 1) // 2, seed=SEED) is True
    campaign.live(name)  # the first time in recovery; dispose.* may lie behind what this life reaches
    assert campaign.live(steps=1) is False


@pytest.mark.timeout(60)  # real processes: a dozen forks of some 0.1 s each
def test_ten_crashes_in_a_row_during_recovery_lose_nothing(started: Nursery, folder: Path, kind: str) -> None:
    chance = random.Random(SEED)
    campaign = Campaign(started, folder, 1, kind)
    assert campaign.live("release.after", 2, seed=SEED)
    early = (
        "begin.after",
        "insert.before",
        "insert.after",
        "commit.before",
        "commit.after",
        "acknowledge.before",
    )
    for _ in range(10):
        assert campaign.live(chance.choice(early), chance.randint(1, 4))
    assert campaign.live(steps=2) is False
    assert campaign.kills == 11


@pytest.mark.timeout(60)  # real processes, about 20 forks
def test_random_kills_lose_nothing(started: Nursery, folder: Path, kind: str) -> None:
    where = random_kills(started, folder, kind, kills=10, seed=SEED)
    assert sum(where.values()) >= 10


@pytest.mark.timeout(60)  # real processes: some twenty forks of some 0.1 s each
def test_an_in_memory_inbox_repeats_only_what_was_queued_and_not_yet_recorded(
    started: Nursery, folder: Path, kind: str
) -> None:
    path, witness = place_of(folder, "forgetful", kind), folder / "witness"
    places = (
        "followup.before",
        "followup.after",
        "flush.before",
        "insert.before",
        "commit.before",
        "commit.after",
    )
    hit_window = 0
    for life, (place, hit) in enumerate([(place, hit) for place in places for hit in (1, 2, 9)], start=1):
        plan = Plan(str(path), str(witness), life, SEED, kill_at=place, kill_hit=hit, is_forgetful=True)
        was_killed = started.run(plan)
        in_window = judge_window(path, witness, life)
        assert in_window <= was_killed, "at most one for each crash, and none without"
        hit_window += in_window
    assert hit_window, "the window is there, as DESIGN section 1 says"
    assert started.run(Plan(str(path), str(witness), 99, SEED, is_forgetful=True)) is False
    story = read_logs(path)["s"]
    assert story.created.keys() == story.ended.keys()


def test_a_fact_cut_off_by_a_kill_harms_none_of_the_next_life(folder: Path) -> None:
    witness = folder / "witness"
    Witness(str(witness), 1).say("opened", text="x")
    with witness.open("ab") as file:
        file.write(b'{"what": "created", "prompt": "xxx')
    assert [fact["life"] for fact in facts(witness)] == [1]
    Witness(str(witness), 2).say("closed")
    assert [(fact["life"], fact["what"]) for fact in facts(witness)] == [(1, "opened"), (2, "closed")]


def test_a_store_without_its_first_commit_is_read_as_empty(folder: Path) -> None:
    """What a host leaves behind that is killed before its first commit."""
    path = folder / "agent.db"
    path.touch()
    with SqliteReader(path) as reader:
        assert reader.damage() == []
        assert reader.sessions() == []
    begun = folder / "agent.sessions"
    begun.mkdir()
    (begun / ".lock").touch()
    with JsonlReader(begun) as reader:
        assert reader.damage() == []
        assert reader.sessions() == []
