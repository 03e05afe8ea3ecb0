"""Random lives, the same for the same seed. TAUGRID_RAY_LIVES says how many (150);
TAUGRID_RAY_FIRST_LIFE with which seed to begin (0).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from taugrid_ray.kinds.resource import EVENT
from tests.sim.life import Life, changes

FIRST = int(os.environ.get("TAUGRID_RAY_FIRST_LIFE", "0"))
LIVES = int(os.environ.get("TAUGRID_RAY_LIVES", "150"))
TOGETHER = 25
RICH = 40
KILLED = (5, 20) if LIVES < 500 else (5, 7, 20, 22, 36)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hundreds of injected faults are no news."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(FIRST + RICH, FIRST + LIVES, TOGETHER))
def test_lives(first: int) -> None:
    for seed in range(first, min(first + TOGETHER, FIRST + LIVES)):
        Life(seed).run()


def test_a_life_is_a_function_of_its_seed() -> None:
    lives = [Life(7), Life(7)]
    for life in lives:
        life.run()
    told = [[(c.at_s, c.kind, c.key, c.obj) for c in changes(life.kube)] for life in lives]
    assert told[0] == told[1]


def test_lives_are_full_of_events() -> None:
    """Else all of the above proves nothing: what a gang can meet is met within the first lives."""
    reasons: set[str] = set()
    kills = 0
    for seed in range(FIRST, FIRST + RICH):
        life = Life(seed)
        life.run()
        kills += life.kills
        reasons |= {past.after["reason"] for past in life.kube.history.of(EVENT)}
    assert kills >= RICH // 4
    assert reasons >= {
        "CapacityRequested",
        "WaitingForCapacity",
        "CapacityProvisioned",
        "WaitingForNodes",
        "ProvisioningTimedOut",
        "NodesTimedOut",
        "RequestRefused",
        "Resumed",
        "GaveUp",
    }


@pytest.mark.parametrize("seed", KILLED)
def test_killed_at_every_write_in_turn(seed: int) -> None:
    """Before each write, and after it with the answer lost; then it starts again."""
    at = 0
    while True:
        life = Life(seed, dies_at=at)
        life.run()
        if not life.kills:
            break
        at += 1
    assert at > 20
