"""Every sentence of the controller is known again as its reason."""

from __future__ import annotations

import inspect

import pytest

from taugrid_ray import sentences
from taugrid_ray.jobs.told import moment_of, reason_of
from taugrid_ray.reasons import Reason
from taugrid_ray.sentences import Told
from tests.fake_kube.clock import START_S

T0 = START_S
GANG = sentences.size([("cpu", 2), ("gpu", 3)])
MADE = {
    "not_needed": sentences.not_needed(),
    "requested": sentences.requested(GANG, "attempt 1 of 3", T0 + 900),
    "waiting": sentences.waiting(GANG, "attempt 1 of 3", "pool is full.", T0 + 900),
    "booked": sentences.booked(GANG),
    "waiting_for_nodes": sentences.waiting_for_nodes(GANG, 1, T0 + 9),
    "waiting_for_accelerators": sentences.waiting_for_accelerators(GANG, "nvidia.com/gpu", T0 + 9),
    "waiting_for_pods": sentences.waiting_for_pods(GANG),
    "failed": sentences.failed(GANG, "no"),
    "timed_out": sentences.timed_out(GANG, 900, "", "a-class"),
    "expired": sentences.expired(GANG),
    "revoked": sentences.revoked(GANG, "spot"),
    "refused": sentences.refused(GANG, "webhook"),
    "nodes_timed_out": sentences.nodes_timed_out(GANG, 2, 600),
    "accelerators_timed_out": sentences.accelerators_timed_out(GANG, "nvidia.com/gpu", 300),
    "pods_timed_out": sentences.pods_timed_out(GANG, 2, 600),
    "policy_invalid": sentences.policy_invalid("spec.steps is missing"),
    "gang_invalid": sentences.gang_invalid("too many pod sets"),
    "resumed": sentences.resumed("attempt 2 of 3"),
    "growing": sentences.growing(GANG, 1, "", T0 + 900),
    "growth_settled": sentences.growth_settled(),
    "growth_withdrawn": sentences.growth_withdrawn(["big"]),
    "growth_given_back": sentences.growth_given_back(),
}
ENDS = {
    "growth_refused": sentences.growth_refused("big", 2, 1, MADE["timed_out"], T0 + 960),
    "parked": sentences.parked(MADE["timed_out"], "attempt 1 of 3", T0 + 960),
    "gave_up": sentences.gave_up(MADE["timed_out"], "attempt 3 of 3"),
}


def test_the_table_has_every_sentence() -> None:
    makers = {
        name
        for name, function in inspect.getmembers(sentences, inspect.isfunction)
        if function.__annotations__.get("return") == "Told"
    }
    assert makers == {*MADE, *ENDS}


@pytest.mark.parametrize("name", [*MADE, *ENDS])
def test_a_sentence_is_known_again(name: str) -> None:
    told: Told = {**MADE, **ENDS}[name]
    assert reason_of(told.sentence) is told.reason


@pytest.mark.parametrize("words", ["", "approved", "asked my manager", "bookedX 3 pods"])
def test_somebody_elses_sentence_is_not_ours(words: str) -> None:
    assert reason_of(words) is None


def test_a_sentence_names_its_moment_also_past_midnight() -> None:
    assert moment_of(MADE["requested"].sentence, after_s=T0) == T0 + 900
    late = sentences.requested(GANG, "attempt 1 of 3", T0 + 86_400 + 300)
    assert moment_of(late.sentence, after_s=T0 + 86_000) == T0 + 86_700
    assert moment_of(MADE["booked"].sentence, after_s=T0) is None


def test_clocks_may_differ_by_some_seconds() -> None:
    soon = sentences.requested(GANG, "attempt 1 of 3", T0 + 100)
    assert moment_of(soon.sentence, after_s=T0 + 130) == T0 + 100


def test_a_reason_without_a_sentence_is_not_told_by_one() -> None:
    told = {t.reason for t in (*MADE.values(), *ENDS.values())}
    assert set(Reason) - told == {Reason.WAITING_FOR_QUOTA, Reason.INTERNAL_ERROR}
