"""Courses of lives on one file: killed at a failpoint and recovered, or killed many times in a row."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

from schedule_sm.stores.failpoints import FAILPOINTS
from schedule_sm.testing.travel import START
from tests.crash.judge import facts, judge, judge_finished
from tests.crash.kinds import place_of
from tests.crash.life import LIFE_TIME_S, Plan
from tests.crash.nursery import Nursery


class Campaign:
    """Lives, one after the other, on one store; each is judged."""

    def __init__(self, nursery: Nursery, folder: Path, seed: int, kind: str) -> None:
        self._nursery = nursery
        self.path = place_of(folder, f"{seed}", kind)
        self.witness = folder / f"{seed}.witness"
        self._seed = seed
        self._lives = 0
        self.kills = 0

    def live(
        self,
        kill_at: str | None = None,
        kill_hit: int = 1,
        *,
        kill_after_ms: float | None = None,
        steps: int = 14,
        seed: int | None = None,
    ) -> bool:
        """Live once, killed or not, and judge what is left; whether it was killed."""
        self._lives += 1
        plan = Plan(
            str(self.path),
            str(self.witness),
            self._lives,
            self._seed * 1_000 + self._lives if seed is None else seed,
            steps,
            kill_at,
            kill_hit,
            kill_after_ms,
        )
        try:
            was_killed = self._nursery.run(plan)
            self.kills += was_killed
            if was_killed:
                judge(self.path, self.witness)
            else:
                until = START + timedelta(seconds=LIFE_TIME_S * (self._lives + 0.4))
                judge_finished(self.path, self.witness, int(until.timestamp() * 1_000))
        except AssertionError as error:
            error.add_note(f"{plan}")
            raise
        return was_killed

    def hits(self) -> Counter[str]:
        """Return how often the last life that was not killed passed each failpoint."""
        return Counter([fact for fact in facts(self.witness) if fact["what"] == "hits"][-1]["hits"])


def random_kills(nursery: Nursery, folder: Path, kind: str, *, kills: int, seed: int) -> Counter[str]:
    """Kill ``kills`` lives at random places or moments, and return how often where; raises at the first fault."""
    chance = random.Random(seed)
    where: Counter[str] = Counter()
    while sum(where.values()) < kills:
        campaign = Campaign(nursery, folder, chance.randrange(1_000_000_000), kind)
        for _ in range(chance.randint(1, 12)):
            if chance.random() < 0.25:
                place, hit, after_ms = None, 1, chance.uniform(0.5, 250)
            else:
                place, hit, after_ms = chance.choice(FAILPOINTS), int(chance.paretovariate(0.6)), None
            if campaign.live(place, hit, kill_after_ms=after_ms):
                where[place or "at a random moment"] += 1
        campaign.live(steps=2)
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return where
