"""The one annotation that remembers attempts: there and back, and whatever a person writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray.memory import FRESH, Memory, Pause, format_memory, parse_memory

MOMENTS = st.integers(0, 2**33).map(float)
MEMORIES = st.builds(
    Memory,
    pause=st.sampled_from(Pause),
    step=st.integers(1, 99),
    attempt=st.integers(1, 99),
    failures=st.integers(0, 999),
    reason=st.text(max_size=30),
    message=st.text(max_size=200),
    at_s=MOMENTS,
    resume_at_s=st.none() | MOMENTS,
)


@given(MEMORIES)
def test_there_and_back(memory: Memory) -> None:
    assert parse_memory(format_memory(memory)) == memory


@given(MEMORIES)
def test_the_same_memory_is_the_same_text(memory: Memory) -> None:
    assert format_memory(parse_memory(format_memory(memory))) == format_memory(memory)


@pytest.mark.parametrize("pause", Pause)
def test_nothing_is_lost(pause: Pause) -> None:
    memory = Memory(pause, 2, 3, 4, "ProvisioningTimedOut", 'said "no"', 100.0, 200.0)
    assert parse_memory(format_memory(memory)) == memory


def test_it_is_readable_with_kubectl() -> None:
    memory = Memory(Pause.PARKED, step=2, attempt=3, failures=4, at_s=0.0, resume_at_s=60.0)
    assert json.loads(format_memory(memory)) == {
        "state": "parked",
        "step": 2,
        "attempt": 3,
        "failures": 4,
        "reason": "",
        "message": "",
        "at": "1970-01-01T00:00:00Z",
        "resumeAt": "1970-01-01T00:01:00Z",
    }


@given(st.text() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["state", "step", "attempt", "failures", "at", "resumeAt", "x"]), inner
    ),
).map(json.dumps))  # fmt: skip
def test_whatever_is_written_there_is_read(text: str) -> None:
    memory = parse_memory(text)
    assert memory.step >= 1
    assert memory.attempt >= 1
    assert memory.failures >= 0


JUNK = (
    None, "", "{", "[]", "1", '{"state": "asleep"}', '{"state": "parked", "at": "yesterday"}',
    "[" * 99_999,
)  # fmt: skip


@pytest.mark.parametrize("text", JUNK)
def test_what_is_not_ours_to_read_is_no_memory(text: str | None) -> None:
    assert parse_memory(text) == FRESH
