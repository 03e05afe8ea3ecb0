"""Worker groups: how many pods come, how many Kueue counts, and what may grow."""

from __future__ import annotations

from typing import Any

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import NoteCode, PodGroup, Role, gang_of
from taugrid_ray.kinds.strict import INT32_MAX
from tests.gang.objects import ELASTIC, GPU, amounts, group, raycluster, rayjob, small


def made(**fields: Any) -> PodGroup:
    return gang_of(raycluster(group("w", **fields))).group("w")


@pytest.mark.parametrize(
    ("fields", "pods", "counted"),
    [
        pytest.param({"replicas": 3}, 3, 3, id="as written"),
        pytest.param({"replicas": None}, 0, 0, id="none by default"),
        pytest.param({"replicas": 0}, 0, 0, id="zero stays zero"),
        pytest.param({"replicas": 1, "numOfHosts": 4}, 4, 4, id="a replica is all its hosts"),
        pytest.param({"replicas": 2.0, "numOfHosts": 2.0}, 4, 4, id="whole numbers with a point"),
        pytest.param({"replicas": 40, "numOfHosts": 64}, 2560, 2560, id="40 slices of 64 hosts"),
        pytest.param({"replicas": 12, "maxReplicas": 4}, 4, 12, id="capped by the most"),
        pytest.param({"replicas": 0, "minReplicas": 2}, 2, 0, id="raised to the least"),
        pytest.param(
            {"replicas": 5, "maxReplicas": 2, "numOfHosts": 3}, 6, 15, id="capped in replicas"
        ),
        pytest.param({"replicas": 8, "suspend": True}, 0, 8, id="suspended makes none"),
        pytest.param({"replicas": None, "minReplicas": 2}, 2, 0, id="the least without a wish"),
    ],
)
def test_pods_of_a_group(fields: dict[str, Any], pods: int, counted: int) -> None:
    one = made(**fields)
    assert (one.role, one.count, one.counted.count) == (Role.WORKERS, pods, counted)
    assert one.total == {n: a * pods for n, a in amounts(cpu="4", memory="16Gi").items()}
    assert one.counted.total == {n: a * counted for n, a in one.per_pod.items()}


def test_what_may_grow() -> None:
    obj = raycluster(
        group("w", 2, minReplicas=1, maxReplicas=8, numOfHosts=4),
        annotations=ELASTIC,
        enableInTreeAutoscaling=True,
    )
    gang = gang_of(obj)
    one = gang.group("w")
    assert gang.elastic
    assert gang.autoscaling
    assert (one.replicas, one.min_replicas, one.max_replicas, one.num_of_hosts) == (2, 1, 8, 4)


def test_without_a_limit_a_group_may_grow_for_ever() -> None:
    assert (made().min_replicas, made().max_replicas) == (0, INT32_MAX)


def test_a_wish_that_is_capped_is_told() -> None:
    notes = gang_of(raycluster(group("w", 12, maxReplicas=4))).notes_of(NoteCode.REPLICAS_CLAMPED)
    assert [n.message for n in notes] == [
        "group 'w' asks for 12 replicas, capped to 4 by KubeRay; Kueue counts 12 pods instead of 4"
    ]


def test_a_suspended_group_is_told() -> None:
    gang = gang_of(raycluster(group("w", 8, suspend=True)))
    assert gang.notes_of(NoteCode.GROUP_SUSPENDED)
    assert gang.notes_of(NoteCode.HEAD_ALONE)


def test_no_groups_at_all() -> None:
    gang = gang_of(raycluster())
    assert (gang.pods, gang.total) == (1, amounts(cpu="2", memory="4Gi"))
    assert gang.notes_of(NoteCode.HEAD_ALONE)


def test_kueue_calls_groups_in_lower_case() -> None:
    gang = gang_of(raycluster(group("GPU-a")))
    assert gang.group("GPU-a") is gang.group("gpu-a")
    assert gang.group("gpu-a").counted.name == "gpu-a"
    assert gang.notes_of(NoteCode.GROUP_RENAMED)
    with pytest.raises(KeyError):
        gang.group("other")


def test_what_is_asked_for_follows_the_pod_and_not_what_ray_is_told() -> None:
    gpus = small("4", "16Gi", **{GPU: "4"})
    gang = gang_of(
        raycluster(
            group("more", 1, small("4", "16Gi", **{GPU: "1"}), rayStartParams={"num-gpus": "8"}),
            group("none", 1, gpus, rayStartParams={"num-gpus": "0"}),
        )
    )
    assert gang.total[GPU] == 5
    assert gang.group("more").ray["GPU"] == 8
    assert "GPU" not in gang.group("none").ray
    assert len(gang.notes_of(NoteCode.RAY_VIEW_DIFFERS)) == 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"numOfHosts": 0}, "0 is less than one pod per replica"),
        ({"numOfHosts": -2}, "-2 is less than one pod per replica"),
        ({"replicas": INT32_MAX, "numOfHosts": 4}, "8589934588 pods, a pod set counts to"),
        ({"replicas": 2**31}, "beyond 2147483647"),
        ({"replicas": -1}, "-1 must not be negative"),
        ({"replicas": 3, "minReplicas": 5, "maxReplicas": 2}, "5 is above maxReplicas 2"),
        ({"replicas": "2"}, "must be a whole number, not '2'"),
        ({"template": {"spec": {"containers": []}}}, "write at least one container"),
    ],
)
def test_refuses_a_group(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError, match=says) as refused:
        made(**fields)
    assert "(worker group 'w')" in refused.value.message


def test_a_head_that_is_missing() -> None:
    obj = raycluster(group())
    del obj["spec"]["headGroupSpec"]
    with pytest.raises(ManifestError, match=r"headGroupSpec.*write at least one container"):
        gang_of(obj)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "head",
            "'head' is the name of a pod set of Kueue's own; write for example 'head-workers'",
        ),
        ("Head", "'Head' is the name of a pod set"),
        ("", "is empty"),
        ("small group", "write for example 'small-group'"),
        ("team/group", "write for example 'team-group'"),
        ("g" * 64, "cannot be the label"),
        ("GPU_Workers", "write for example 'gpu-workers'"),
        (7, "must be text, not a number: write '7' in quotes"),
    ],
)
def test_refuses_a_groups_name(name: object, says: str) -> None:
    one = group()
    one["groupName"] = name
    with pytest.raises(ManifestError, match=says):
        gang_of(raycluster(one))


def test_a_group_called_submitter_collides_only_where_there_is_one() -> None:
    with pytest.raises(ManifestError, match="'submitter' is the name of a pod set"):
        gang_of(rayjob(group("submitter")))
    assert gang_of(rayjob(group("submitter"), submissionMode="HTTPMode")).pods == 2
    assert gang_of(raycluster(group("submitter"))).pods == 2


@pytest.mark.parametrize("second", ["workers", "Workers"])
def test_two_groups_of_one_name(second: str) -> None:
    with pytest.raises(ManifestError, match="stands twice"):
        gang_of(raycluster(group("workers"), group(second)))


@pytest.mark.parametrize(
    ("groups", "mode", "fits"), [(17, "HTTPMode", True), (17, "K8sJobMode", False), (16, "", True)]
)
def test_a_workload_holds_18_pod_sets(groups: int, mode: str, fits: bool) -> None:
    obj = rayjob(*(group(f"g{i}") for i in range(groups)), submissionMode=mode)
    if fits:
        assert len(gang_of(obj).groups) == groups + (1 if mode == "HTTPMode" else 2)
        return
    with pytest.raises(ManifestError, match="make 19 pod sets"):
        gang_of(obj)


class TestIdleTimeouts:
    """Of the cluster's autoscaler, and of each group."""

    def test_of_both(self) -> None:
        obj = raycluster(
            group("w", 0, idleTimeoutSeconds=30),
            annotations=ELASTIC,
            enableInTreeAutoscaling=True,
            autoscalerOptions={"version": "v2", "idleTimeoutSeconds": 60},
        )
        assert gang_of(obj).pods == 1

    def test_of_a_group_needs_the_second_autoscaler(self) -> None:
        obj = raycluster(
            group("w", 0, idleTimeoutSeconds=30), annotations=ELASTIC, enableInTreeAutoscaling=True
        )
        with pytest.raises(ManifestError, match="only with the second autoscaler"):
            gang_of(obj)

    def test_of_a_group_with_the_second_autoscaler_by_environment(self) -> None:
        head = small("2", "4Gi")
        head["spec"]["containers"][0]["env"] = [{"name": "RAY_enable_autoscaler_v2", "value": "1"}]
        obj = raycluster(
            group("w", 0, idleTimeoutSeconds=30),
            head=head,
            annotations=ELASTIC,
            enableInTreeAutoscaling=True,
        )
        assert gang_of(obj).pods == 1

    @pytest.mark.parametrize("where", ["group", "cluster"])
    def test_must_not_be_negative(self, where: str) -> None:
        options: dict[str, Any] = {"version": "v2"}
        one = group("w", 0)
        (one if where == "group" else options)["idleTimeoutSeconds"] = -5
        obj = raycluster(
            one, annotations=ELASTIC, enableInTreeAutoscaling=True, autoscalerOptions=options
        )
        with pytest.raises(ManifestError, match=r"idleTimeoutSeconds.*-5 must not be negative"):
            gang_of(obj)


def test_more_than_64_bits_can_count() -> None:
    huge = small("1", "4Pi")
    with pytest.raises(ManifestError, match="'w' x 2147483647 asks for more memory"):
        gang_of(raycluster(group("w", INT32_MAX, huge)))
