"""What is remembered of a growth comes back as it was written, and nonsense is no memory."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray.growth_memory import (
    Clamp,
    GroupMemory,
    GrowthMemory,
    Limits,
    format_growth_memory,
    parse_growth_memory,
)

counts = st.integers(0, 2**31 - 1)
moments = st.integers(0, 4_000_000_000).map(float)
limits = st.builds(Limits, counts, counts)
clamps = st.builds(Clamp, limits, limits, moments, moments, st.text(), st.text())
groups = st.builds(GroupMemory, counts, counts, st.none() | clamps)
FULL = GrowthMemory(
    {
        "big": GroupMemory(3, 2, Clamp(Limits(9, 1), Limits(3, 0), 5.0, 65.0, "Why", "so")),
        "small": GroupMemory(1),
    }
)


@given(st.dictionaries(st.text(min_size=1), groups).map(GrowthMemory))
def test_comes_back_as_written(memory: GrowthMemory) -> None:
    assert parse_growth_memory(format_growth_memory(memory)) == memory


def test_comes_back_whole() -> None:
    assert parse_growth_memory(format_growth_memory(FULL)) == FULL


def test_the_same_memory_is_the_same_text() -> None:
    turned = GrowthMemory(dict(reversed(FULL.groups.items())))
    assert format_growth_memory(turned) == format_growth_memory(FULL)


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "7", '{"groups": {"a": {"clamp": {"at": 1}}}}']
)
def test_nonsense_is_no_memory(text: str | None) -> None:
    found = parse_growth_memory(text)
    assert found is None or found.groups == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_text_is_too_odd(value: object) -> None:
    parse_growth_memory(json.dumps({"groups": value}))
