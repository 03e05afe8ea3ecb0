"""What Ray will believe a pod has, beside what is asked for it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import Gang, NoteCode, gang_of
from tests.gang.objects import GPU, Obj, container, group, pod, raycluster, small


def read(template: Obj, **fields: Any) -> Gang:
    return gang_of(raycluster(group("w", 1, template, **fields)))


def ray(template: Obj, **fields: Any) -> dict[str, Fraction]:
    return dict(read(template, **fields).group("w").ray)


GI = 2**30


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(small("4", "8Gi"), {"CPU": 4, "memory": 8 * GI}, id="limits"),
        pytest.param(small("1500m", "1Gi"), {"CPU": 2, "memory": GI}, id="CPUs rounded up"),
        pytest.param(
            pod(container("ray", {"cpu": "3", "memory": "1Gi"})), {"CPU": 3}, id="request"
        ),
        pytest.param(
            small("4", "8Gi", **{"amd.com/gpu": "2"}),
            {"CPU": 4, "memory": 8 * GI, "GPU": 2},
            id="any name that ends in gpu",
        ),
        pytest.param(
            small("4", "8Gi", **{"nvidia.com/mig-1g.5gb": "3"}),
            {"CPU": 4, "memory": 8 * GI, "GPU": 3},
            id="a slice of an NVIDIA GPU",
        ),
        pytest.param(
            small("4", "8Gi", **{"google.com/tpu": "4"}),
            {"CPU": 4, "memory": 8 * GI, "TPU": 4},
            id="a TPU by name",
        ),
        pytest.param(
            small("4", "8Gi", **{"google.com/tpu": "4", "aws.amazon.com/neuroncore": "2"}),
            {"CPU": 4, "memory": 8 * GI, "neuron_cores": 2},
            id="the first of two by name",
        ),
        pytest.param(
            small("4", "8Gi", **{"gpu.intel.com/i915": "1"}),
            {"CPU": 4, "memory": 8 * GI},
            id="a device Ray does not know",
        ),
    ],
)
def test_from_the_container(template: Obj, want: dict[str, int]) -> None:
    assert ray(template) == want


def test_start_parameters_win() -> None:
    params = {"num-cpus": "8", "num-gpus": "0", "memory": "1000"}
    found = ray(small("4", "8Gi", **{GPU: "1"}), rayStartParams=params)
    assert found == {"CPU": 8, "memory": 1000}


def test_resources_of_the_group_win() -> None:
    found = ray(small("4", "8Gi"), resources={"CPU": "2", "gpu": "1", "licence": "3"})
    assert found == {"CPU": 2, "GPU": 1, "memory": 8 * GI, "licence": 3}


def test_a_gpu_of_the_group_may_have_its_vendors_name() -> None:
    gang = read(small("4", "8Gi", **{GPU: "1"}), resources={"nvidia.com/gpu": "2"})
    assert gang.group("w").ray["GPU"] == 2
    assert gang.notes_of(NoteCode.RAY_VIEW_DIFFERS)


def test_an_accelerator_that_is_told_is_not_told_twice() -> None:
    params = {"resources": '"{\\"TPU\\": 1}"'}
    found = ray(small("4", "8Gi", **{"google.com/tpu": "4"}), rayStartParams=params)
    assert found["TPU"] == 1


@pytest.mark.parametrize(
    ("written", "warned"),
    [
        pytest.param('"{\\"Custom1\\": 1}"', False, id="in double quotes that survive"),
        pytest.param("'{\"Custom1\": 1}'", False, id="in single quotes"),
        pytest.param('{"Custom1": 1}', True, id="bare"),
        pytest.param('"{\\\\"Custom1\\\\": 1}"', True, id="one backslash too many"),
    ],
)
def test_custom_resources(written: str, warned: bool) -> None:
    gang = read(small("4", "8Gi"), rayStartParams={"resources": written})
    assert gang.group("w").ray["Custom1"] == 1
    assert bool(gang.notes_of(NoteCode.RAY_RESOURCES_SPELLING)) is warned


@pytest.mark.parametrize(
    "written", ['"{Custom1: }"', "{", "[1]", '{"a": "b"}', '{"a": true}', '{"a": null}', "many"]
)
def test_refuses_custom_resources(written: str) -> None:
    with pytest.raises(ManifestError, match="is not a JSON object of numbers"):
        read(small("4", "8Gi"), rayStartParams={"resources": written})


def test_a_start_parameter_that_is_no_number() -> None:
    with pytest.raises(ManifestError, match="'many' is not a quantity"):
        read(small("4", "8Gi"), rayStartParams={"num-cpus": "many"})


def test_memory_with_a_suffix_is_told() -> None:
    gang = read(small("4", "8Gi"), rayStartParams={"memory": "4Gi"})
    assert ["write '4294967296'" in n.message for n in gang.notes] == [True]


def test_fewer_cpus_than_the_pod_has_are_a_choice() -> None:
    gang = read(small("4", "8Gi"), rayStartParams={"num-cpus": "0"})
    assert not gang.notes_of(NoteCode.RAY_VIEW_DIFFERS)
