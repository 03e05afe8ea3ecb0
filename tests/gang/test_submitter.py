"""Who hands the program to Ray, and what that costs: a pod, a container in the head, or nothing."""

from __future__ import annotations

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import NoteCode, Role, Source, gang_of
from tests.gang.objects import ELASTIC, amounts, container, group, pod, rayjob


@pytest.mark.parametrize(
    ("mode", "autoscaling", "head", "submitters"),
    [
        # the head's own 2 CPU, 4Gi; autoscaler 500m, 512Mi; submitter 500m, 200Mi
        pytest.param(None, False, ("2", "4096Mi"), 1, id="no mode is K8sJobMode"),
        pytest.param("K8sJobMode", False, ("2", "4096Mi"), 1, id="a pod of its own"),
        pytest.param("K8sJobMode", True, ("2.5", "4608Mi"), 1, id="a pod beside an autoscaler"),
        pytest.param("SidecarMode", False, ("2.5", "4296Mi"), 0, id="in the head"),
        pytest.param("SidecarMode", True, ("3", "4808Mi"), 0, id="in the head beside one"),
        pytest.param("HTTPMode", False, ("2", "4096Mi"), 0, id="by the operator"),
        pytest.param("HTTPMode", True, ("2.5", "4608Mi"), 0, id="by the operator with one"),
        pytest.param("InteractiveMode", False, ("2", "4096Mi"), 0, id="by somebody later"),
        pytest.param("InteractiveMode", True, ("2.5", "4608Mi"), 0, id="by somebody with one"),
    ],
)
def test_modes(mode: str | None, autoscaling: bool, head: tuple[str, str], submitters: int) -> None:
    obj = rayjob(group(), annotations=ELASTIC, cluster={"enableInTreeAutoscaling": autoscaling})
    if mode is not None:
        obj["spec"]["submissionMode"] = mode
    gang = gang_of(obj)
    cpu, memory = head
    assert gang.group("head").per_pod == amounts(cpu=cpu, memory=memory)
    assert gang.group("head").counted.per_pod == amounts(cpu=cpu, memory=memory)
    found = [g for g in gang.groups if g.role is Role.SUBMITTER]
    assert [g.per_pod for g in found] == [amounts(cpu="500m", memory="200Mi")] * submitters
    assert gang.pods == 2 + submitters
    assert gang.autoscaling is autoscaling


def test_each_hidden_container_is_a_line_of_its_own() -> None:
    gang = gang_of(
        rayjob(
            group(),
            annotations=ELASTIC,
            submissionMode="SidecarMode",
            cluster={"enableInTreeAutoscaling": True},
        )
    )
    parts = {part.name or part.what: part for part in gang.group("head").parts}
    assert list(parts) == ["ray", "ray-job-submitter", "autoscaler"]
    assert set(parts["autoscaler"].sources.values()) == {Source.KUBERAY}
    assert parts["autoscaler"].resources == amounts(cpu="500m", memory="512Mi")
    assert parts["ray-job-submitter"].resources == amounts(cpu="500m", memory="200Mi")


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param(
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
            amounts(cpu="3", memory="5Gi"),
            id="its own numbers replace ours",
        ),
        pytest.param(
            {"limits": {"cpu": "1"}}, amounts(cpu="3", memory="4Gi"), id="limits become requests"
        ),
        pytest.param({}, amounts(cpu="2", memory="4Gi"), id="written empty is nothing"),
    ],
)
def test_the_autoscaler_has_its_own_numbers(resources: dict[str, object], want: object) -> None:
    gang = gang_of(
        rayjob(
            group(),
            annotations=ELASTIC,
            cluster={
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": {"resources": resources},
            },
        )
    )
    assert gang.group("head").per_pod == want


def test_autoscaler_options_without_the_autoscaler_cost_nothing() -> None:
    options = {"resources": {"requests": {"cpu": "9"}}}
    gang = gang_of(rayjob(group(), cluster={"autoscalerOptions": options}))
    assert gang.group("head").per_pod == amounts(cpu="2", memory="4Gi")


def test_the_submitters_own_template_replaces_the_usual_numbers() -> None:
    template = pod(
        container("submit", {"cpu": "100m"}, {"cpu": "200m", "memory": "64Mi"}),
        restartPolicy="Never",
    )
    gang = gang_of(rayjob(group(), submitterPodTemplate=template))
    assert gang.group("submitter").per_pod == amounts(cpu="100m", memory="64Mi")


def test_a_template_that_asks_for_nothing_is_told() -> None:
    template = pod(container("submit"), restartPolicy="OnFailure")
    gang = gang_of(rayjob(group(), submitterPodTemplate=template))
    assert gang.group("submitter").count == 1
    assert not gang.group("submitter").per_pod
    assert gang.notes_of(NoteCode.NO_REQUESTS)


@pytest.mark.parametrize("policy", [None, "Always"])
def test_a_submitter_that_would_start_for_ever(policy: str | None) -> None:
    template = pod(container("submit"))
    if policy:
        template["spec"]["restartPolicy"] = policy
    with pytest.raises(ManifestError, match="need Never or OnFailure"):
        gang_of(rayjob(group(), submitterPodTemplate=template))


def test_a_template_outside_its_mode_is_no_pod() -> None:
    template = pod(container("submit", {"cpu": "8"}), restartPolicy="Never")
    gang = gang_of(rayjob(group(), submissionMode="HTTPMode", submitterPodTemplate=template))
    assert [g.name for g in gang.groups] == ["head", "workers"]


def test_a_job_for_a_cluster_that_exists_asks_for_its_submitter_alone() -> None:
    obj = rayjob(clusterSelector={"ray.io/cluster": "shared"})
    del obj["spec"]["rayClusterSpec"]
    gang = gang_of(obj)
    assert [(g.name, g.count) for g in gang.groups] == [("submitter", 1)]
    assert not gang.managed
    assert gang.unmanaged is not None
    assert gang.unmanaged.code is NoteCode.CLUSTER_SELECTOR


def test_a_job_for_a_cluster_that_exists_may_ask_for_nothing() -> None:
    obj = rayjob(clusterSelector={"ray.io/cluster": "shared"}, submissionMode="HTTPMode")
    del obj["spec"]["rayClusterSpec"]
    gang = gang_of(obj)
    assert (gang.pods, gang.total, gang.managed) == (0, {}, False)
