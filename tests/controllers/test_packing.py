"""How many pods fit: never more than the nodes hold, all of them where room is plenty."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray.packing import count_that_fit, is_extended


def amounts(**found: int) -> dict[str, Fraction]:
    return {name: Fraction(value) for name, value in found.items()}


@pytest.mark.parametrize(
    ("pods", "nodes", "want"),
    [
        pytest.param([(3, amounts(cpu=1))], [amounts(cpu=4)], 3, id="all on one"),
        pytest.param([(3, amounts(cpu=2))], [amounts(cpu=3)] * 2, 2, id="one on each"),
        pytest.param([(1, amounts(cpu=1, gpu=1))], [amounts(cpu=4)], 0, id="no GPUs"),
        pytest.param([(1, amounts(cpu=5))], [amounts(cpu=4)], 0, id="too large"),
        pytest.param([(2, amounts(cpu=1)), (1, amounts(cpu=4))], [amounts(cpu=4), amounts(cpu=2)],
                     3, id="the large ones first"),
        pytest.param([(200, amounts())], [amounts(cpu=1)], 110, id="a node takes 110 pods"),
        pytest.param([(3, amounts(cpu=1))], [], 0, id="no nodes"),
        pytest.param([], [amounts(cpu=1)], 0, id="no pods"),
    ],
)  # fmt: skip
def test_count(pods: list[tuple[int, dict[str, Fraction]]], nodes: list[dict[str, Fraction]],
               want: int) -> None:  # fmt: skip
    assert count_that_fit(pods, nodes) == want


SIZES = st.dictionaries(
    st.sampled_from(["cpu", "gpu"]), st.integers(1, 4).map(Fraction), min_size=1
)
NODES = st.lists(
    st.fixed_dictionaries({"cpu": st.integers(0, 8).map(Fraction)}, optional={
        "gpu": st.integers(0, 8).map(Fraction)}), max_size=5)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 5), SIZES), max_size=4), NODES)
def test_never_too_many(
    pods: list[tuple[int, dict[str, Fraction]]], nodes: list[dict[str, Fraction]]
) -> None:
    before = [dict(node) for node in nodes]
    placed = count_that_fit(pods, nodes)
    assert nodes == before, "the nodes are only looked at"
    assert 0 <= placed <= sum(count for count, _ in pods)
    smallest = min((needs.get("cpu", Fraction(0)) for _, needs in pods), default=Fraction(0))
    if smallest > 0:
        assert placed * smallest <= sum(node["cpu"] for node in nodes)


@given(st.lists(st.tuples(st.integers(0, 5), SIZES), max_size=4))
def test_with_a_node_for_each_pod_all_fit(pods: list[tuple[int, dict[str, Fraction]]]) -> None:
    total = sum(count for count, _ in pods)
    roomy = {"cpu": Fraction(4), "gpu": Fraction(4)}
    assert count_that_fit(pods, [roomy] * total) == total


@pytest.mark.parametrize(
    ("resource", "want"),
    [("nvidia.com/gpu", True), ("cpu", False), ("kubernetes.io/batch-cpu", False), ("pods", False)],
)
def test_extended(resource: str, want: bool) -> None:
    assert is_extended(resource) is want
