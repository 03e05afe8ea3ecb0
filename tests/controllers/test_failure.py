"""What follows a failed attempt: the next one, the next step, or the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.actions import Announce, Park
from controllers.gang.failure import attempt_text, step_of
from taugrid_ray.memory import Memory, Pause
from tests.controllers.builders import NOW_S, Gang, failed, policy, requests_of, shown

TWO_STEPS = policy(
    steps=[
        {"provisioningClassName": "first", "attempts": 2},
        {"provisioningClassName": "second", "parameters": {"a": "b"}, "attempts": 1},
    ],
    backoff={"baseSeconds": 10, "maxSeconds": 15},
)


def after(failures: int) -> Memory | None:
    """What is remembered after so many failed attempts of TWO_STEPS."""
    memory: Memory | None = None
    for _ in range(failures):
        memory = next_memory(memory)
    return memory


def next_memory(memory: Memory | None) -> Memory:
    gang = Gang().looks(policy=TWO_STEPS)
    if memory is not None:
        gang = gang.remembers(replace(memory, pause=Pause.RESUMED, resume_at_s=None))
    (park, *_) = gang.asked(NOW_S, failed()).decides(NOW_S).actions
    assert isinstance(park, Park)
    return park.memory


@pytest.mark.parametrize(
    ("failures", "want"),
    [
        pytest.param(1, (Pause.PARKED, 1, 2, NOW_S + 10), id="the second of the first step"),
        pytest.param(2, (Pause.PARKED, 2, 1, NOW_S + 15), id="the second step, a longer pause"),
        pytest.param(3, (Pause.GAVE_UP, 2, 1, None), id="the end"),
    ],
)
def test_attempts(failures: int, want: tuple[Any, ...]) -> None:
    memory = after(failures)
    assert memory is not None
    assert (memory.pause, memory.step, memory.attempt, memory.resume_at_s) == want
    assert memory.failures == failures


def test_the_second_step_asks_its_own_class() -> None:
    memory = Memory(pause=Pause.RESUMED, step=2, attempt=1, failures=2)
    (request,) = requests_of(Gang().looks(policy=TWO_STEPS).remembers(memory))
    assert request["spec"]["provisioningClassName"] == "second"
    assert request["spec"]["parameters"] == {"a": "b"}


def test_a_policy_that_was_shortened_meanwhile_uses_its_last_step() -> None:
    memory = Memory(pause=Pause.RESUMED, step=5, attempt=7, failures=9)
    gang = Gang().looks(policy=TWO_STEPS).remembers(memory)
    (request,) = requests_of(gang)
    assert request["spec"]["provisioningClassName"] == "second"
    assert shown(gang.asked(NOW_S, failed()).decides(NOW_S).actions) == [
        "park gaveUp step 2 attempt 7 ProvisioningFailed",
        "tell GaveUp",
    ]


def test_giving_up_can_be_final() -> None:
    memory = Memory(pause=Pause.RESUMED, step=2, attempt=1, failures=2)
    final = TWO_STEPS.model_copy(update={"on_give_up": "Reject"})
    gang = Gang().looks(policy=final).remembers(memory).asked(NOW_S, failed())
    assert shown(gang.decides(NOW_S).actions) == ["check Rejected GaveUp", "tell GaveUp"]


def test_a_gang_that_gave_up_says_how_to_start_it_again() -> None:
    memory = Memory(pause=Pause.RESUMED, step=2, attempt=1, failures=2)
    gang = Gang().looks(policy=TWO_STEPS).remembers(memory).asked(NOW_S, failed())
    (_, news) = gang.decides(NOW_S).actions
    assert isinstance(news, Announce)
    assert "taugrid resume" in news.note
    assert news.warning


@pytest.mark.parametrize(
    ("failures", "want_s"), [(1, 60), (2, 120), (3, 240), (6, 1800), (99, 1800)]
)
def test_pauses_grow_to_a_limit(failures: int, want_s: int) -> None:
    assert policy().backoff.pause_s(failures) == want_s


def test_attempts_are_counted_over_all_steps_for_people() -> None:
    memory = Memory(pause=Pause.RESUMED, step=2, attempt=1, failures=2)
    assert attempt_text(TWO_STEPS, memory) == "attempt 3 of 3"
    assert attempt_text(TWO_STEPS, replace(memory, failures=9)) == "attempt 3 of 3"
    assert step_of(TWO_STEPS, replace(memory, step=9)).provisioning_class_name == "second"
