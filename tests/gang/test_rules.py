"""What KubeRay, the API server and Kueue would refuse later, refused before anything exists."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import NoteCode, gang_of
from tests.gang.objects import (
    ELASTIC,
    GPU,
    QUEUE,
    Obj,
    amounts,
    container,
    group,
    job,
    pod,
    raycluster,
    rayjob,
    small,
)


def put(obj: Obj, path: str, value: Any) -> Obj:
    """A copy with `value` at a path such as `spec.headGroupSpec`."""
    made = copy.deepcopy(obj)
    *above, last = path.split(".")
    place = made
    for key in above:
        place = place.setdefault(key, {})
    place[last] = value
    return made


def refusal(obj: Obj) -> str:
    with pytest.raises(ManifestError) as refused:
        gang_of(obj)
    sentence = f"{refused.value.message} {refused.value.hint}"
    assert sentence.isprintable()
    assert refused.value.exit_code == 2
    return sentence


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("metadata.name", "a" * 48, "has 48 characters, a RayJob name at most 47"),
        ("metadata.name", "sample.foo", "write for example 'sample-foo'"),
        ("metadata.name", "82ac5612-3bd9", "write for example 'x-82ac5612-3bd9'"),
        ("metadata.name", 7, "must be text, not a number: write '7' in quotes"),
        ("metadata.name", None, "write a name, or generateName"),
        ("metadata.name", "${JOB}", "is not a RayJob name"),
        ("metadata.namespace", "Team_A", "write for example 'team-a'"),
        ("metadata.labels", {"a b": "c"}, "'a b' is not a label key"),
        ("metadata.labels", {"team": "a b"}, "'a b' is not a label value"),
        ("metadata.labels", ["team"], "must be a mapping, not a list"),
        ("metadata.annotations", {"seconds": 60}, "must be text, not a number"),
        ("spec.suspend", "true", "must be true or false, not 'true'"),
        ("spec.ttlSecondsAfterFinished", -1, "-1 must not be negative"),
        ("spec.backoffLimit", -1, "-1 must be 0 or more"),
        ("spec.activeDeadlineSeconds", 0, "0 must be 1 or more"),
        ("spec.preRunningDeadlineSeconds", -5, "-5 must be 1 or more"),
        ("spec.submissionMode", "k8sjobmode", "write K8sJobMode"),
        ("spec.submissionMode", "ByHand", "write K8sJobMode or HTTPMode or SidecarMode or"),
        ("spec.managedBy", "me", "'me' is unknown"),
        ("spec.runtimeEnvYAML", "pip: [", "is not YAML"),
        ("spec.runtimeEnvYAML", "[1]", "is not a mapping"),
        ("spec.rayClusterSpec", None, "rayClusterSpec: is missing"),
        ("spec.rayClusterSpec.authOptions", {"enableK8sTokenAuth": True}, "for a RayJob"),
        ("spec.rayClusterSpec.upgradeStrategy", {"type": "Recreate"}, "cannot be set"),
        ("spec.deletionStrategy", {}, "is empty; write deletionRules"),
        ("spec.shutdownAfterJobFinishes", False, "must be true on a queue"),
        ("spec", None, "is missing: write what is to run"),
        ("spec", "run it", "must be a mapping, not text"),
    ],
)
def test_refuses_a_rayjob(path: str, value: Any, says: str) -> None:
    assert says in refusal(put(rayjob(group()), path, value))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"submissionMode": "InteractiveMode", "backoffLimit": 2}, "must be 0 in InteractiveMode"),
        (
            {"submissionMode": "SidecarMode", "submitterPodTemplate": pod(container())},
            "has no effect in SidecarMode",
        ),
        ({"clusterSelector": {"ray.io/cluster": "shared"}}, "keep one of the two"),
        (
            {"shutdownAfterJobFinishes": False, "ttlSecondsAfterFinished": 60},
            "60 needs shutdownAfterJobFinishes: true",
        ),
        ({"shutdownAfterJobFinishes": False, "suspend": True}, "for a RayJob that is suspended"),
    ],
)
def test_refuses_fields_that_exclude_each_other(fields: dict[str, Any], says: str) -> None:
    assert says in refusal(rayjob(group(), **fields))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"clusterSelector": {"ray.io/cluster": ""}}, "write the RayCluster's name"),
        ({"clusterSelector": {"ray.io/cluster": "c"}, "suspend": True}, "cannot be suspended"),
        (
            {"clusterSelector": {"ray.io/cluster": "c"}, "backoffLimit": 1},
            "a retry is a new cluster",
        ),
        (
            {"clusterSelector": {"ray.io/cluster": "c"}, "submissionMode": "SidecarMode"},
            "cannot use an existing cluster",
        ),
        ({}, "write the cluster to create, or a clusterSelector"),
    ],
)
def test_refuses_a_cluster_selector(fields: dict[str, Any], says: str) -> None:
    obj = rayjob(**fields)
    del obj["spec"]["rayClusterSpec"]
    assert says in refusal(obj)


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ({"deletionRules": [{"policy": "DeleteSelf", "condition": {}}]}, "exactly one of"),
        (
            {"deletionRules": [{"policy": "Burn", "condition": {"jobStatus": "FAILED"}}]},
            "'Burn' is unknown",
        ),
        (
            {
                "deletionRules": [
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}},
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 2}},
                ]
            },
            "stands twice for the same state",
        ),
        (
            {
                "deletionRules": [
                    {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}},
                    {
                        "policy": "DeleteWorkers",
                        "condition": {"jobStatus": "FAILED", "ttlSeconds": 2},
                    },
                ]
            },
            "let ttlSeconds grow in that order",
        ),
        (
            {"deletionRules": [{"policy": "DeleteSelf"}], "onSuccess": {"policy": "DeleteSelf"}},
            "keep deletionRules",
        ),
        ({"onSuccess": {}}, "is missing; write DeleteWorkers or"),
    ],
)
def test_refuses_a_deletion_strategy(strategy: dict[str, Any], says: str) -> None:
    obj = rayjob(group(), labels={}, shutdownAfterJobFinishes=False, deletionStrategy=strategy)
    assert says in refusal(obj)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("metadata.name", "a" * 54, "has 54 characters, a RayCluster name at most 53"),
        ("spec.managedBy", "kubectl", "'kubectl' is unknown"),
        ("spec.enableInTreeAutoscaling", True, "add the annotation kueue.x-k8s.io/elastic-job"),
        ("spec.autoscalerOptions", {"version": "v3"}, "'v3' is unknown; write v1 or v2"),
        ("spec.authOptions", {"mode": "token"}, ""),
        ("spec.authOptions", {"mode": "token", "enableK8sTokenAuth": True}, ""),
        ("spec.authOptions", {"enableK8sTokenAuth": True}, "must be token"),
        (
            "spec.authOptions",
            {"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"},
            "excludes enableK8sTokenAuth",
        ),
        ("spec.upgradeStrategy", {"type": "Recreate"}, ""),
        ("spec.upgradeStrategy", {"type": "Rolling"}, "write Recreate or None"),
        ("spec.headGroupSpec.resources", {"CPU": "1"}, ""),
        ("spec.headGroupSpec.rayStartParams", {"labels": "a=b"}, "write the labels under"),
        ("spec.headGroupSpec.rayStartParams", {"num-cpus": 0}, "write '0' in quotes"),
        ("spec.headGroupSpec.rayStartParams", {"resources": '{"A": '}, "is not a JSON object"),
        ("spec.workerGroupSpecs", {"w": {}}, "must be a list, not a mapping"),
        ("spec.workerGroupSpecs", ["w"], "must be a mapping, not text"),
    ],
)
def test_a_raycluster(path: str, value: Any, says: str) -> None:
    obj = put(raycluster(group()), path, value)
    if says:
        assert says in refusal(obj)
    else:
        assert gang_of(obj).pods == 2


def test_a_token_needs_a_ray_that_knows_it() -> None:
    obj = put(raycluster(group()), "spec.authOptions", {"mode": "token"})
    for version in ("2.51.3", "", "nightly"):
        assert "write 2.52.0 or later" in refusal(put(obj, "spec.rayVersion", version))
    assert gang_of(put(obj, "spec.rayVersion", "2.52.0rc1")).pods == 2
    of_kubernetes = put(obj, "spec.authOptions.enableK8sTokenAuth", True)
    assert "write 2.55.0 or later" in refusal(put(of_kubernetes, "spec.rayVersion", "2.54.1"))


def test_resources_of_a_group_stand_in_one_place() -> None:
    one = group(rayStartParams={"num-gpus": "1"}, resources={"GPU": "1"})
    assert "KubeRay takes only one of the two" in refusal(raycluster(one))


def test_a_suspended_group_excludes_the_autoscaler() -> None:
    obj = raycluster(group(suspend=True), annotations=ELASTIC, enableInTreeAutoscaling=True)
    assert "set replicas, minReplicas and maxReplicas to 0 instead" in refusal(obj)


def test_the_second_autoscaler_needs_pods_that_are_not_restarted() -> None:
    obj = raycluster(
        group(),
        annotations=ELASTIC,
        enableInTreeAutoscaling=True,
        autoscalerOptions={"version": "v2"},
    )
    assert gang_of(obj).pods == 2
    obj["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert "v2 needs restartPolicy Never" in refusal(obj)


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"requests": {GPU: "0.5"}, "limits": {GPU: "0.5"}}, "'0.5' is not whole"),
        ({"requests": {GPU: "1"}, "limits": {GPU: "2"}}, "'1' differs from the limit 2"),
        ({"requests": {GPU: "1"}}, "needs one equal to its request"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "'2' is above the limit '1'"),
        ({"requests": {"gpu": "1"}}, "'gpu' is not a resource"),
        ({"requests": {"a b/c": "1"}}, "is not a resource name"),
        ({"requests": {"hugepages-2Mi": "4Mi"}}, "needs one equal to its request"),
        ({"requests": {"cpu": "-1"}}, "must not be negative"),
        ({"requests": {"cpu": None}}, "must be a quantity"),
        ({"requests": ["cpu"]}, "must be a mapping, not a list"),
    ],
)
def test_refuses_what_a_pod_asks_for(resources: dict[str, Any], says: str) -> None:
    asks = {"name": "ray", "image": "ray", "resources": resources}
    assert says in refusal(job(pod(asks)))
    assert says in refusal(raycluster(group("w", 1, pod(asks))))
    assert says in refusal(rayjob(group(), submitterPodTemplate=pod(asks, restartPolicy="Never")))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("spec.serviceAccountName", "${KSA_NAME}", "is not the name of a service account"),
        ("spec.nodeSelector", {"pool": "${POOL}"}, "'${POOL}' is not a label value"),
        ("spec.nodeSelector", {"count": 8}, "write '8' in quotes"),
        ("metadata.labels", {"team": "a b"}, "'a b' is not a label value"),
        ("metadata.annotations", {"n": 1}, "write '1' in quotes"),
    ],
)
def test_refuses_a_template_of_which_no_pod_could_be_made(path: str, value: Any, says: str) -> None:
    template = put(small(), path, value)
    assert says in refusal(raycluster(group("w", 1, template)))
    assert says in refusal(job(template))


def test_a_custom_resource_holds_fractions_as_text() -> None:
    """The API server takes `cpu: 1.5` in a Job and refuses it in a RayCluster."""
    fraction, whole = pod(container("ray", {"cpu": 1.5})), pod(container("ray", {"cpu": 2.0}))
    assert gang_of(job(fraction)).total == amounts(cpu="1.5")
    assert "1.5 must be text: write '1.5'" in refusal(raycluster(group("w", 1, fraction)))
    assert gang_of(raycluster(group("w", 1, whole))).total["cpu"] == 4
    submitter = {**fraction, "spec": {**fraction["spec"], "restartPolicy": "Never"}}
    assert "must be text" in refusal(rayjob(group(), submitterPodTemplate=submitter))
    options = {"resources": {"limits": {"cpu": 0.5}}}
    assert "write '0.5'" in refusal(raycluster(group(), autoscalerOptions=options))


def test_an_elastic_raycluster_without_start_parameters_cannot_be_created() -> None:
    obj = raycluster(group("w"), annotations=ELASTIC)
    assert gang_of(obj).elastic
    del obj["spec"]["workerGroupSpecs"][0]["rayStartParams"]
    assert "rayStartParams (worker group 'w'): is missing" in refusal(obj)
    plain = raycluster(group("w"))
    del plain["spec"]["workerGroupSpecs"][0]["rayStartParams"]
    assert gang_of(plain).pods == 2


def test_all_problems_are_told_at_once_and_no_more_than_a_person_reads() -> None:
    groups = [group(f"g{i}", -1) for i in range(9)]
    with pytest.raises(ManifestError) as refused:
        gang_of(raycluster(*groups))
    assert "(worker group 'g0')" in refused.value.message
    assert refused.value.hint.count("must not be negative") == 5
    assert refused.value.hint.endswith("and 3 more")


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "x" * 5000, "\u202egpj"])
def test_what_people_write_never_reaches_the_terminal_as_it_is(name: str) -> None:
    for obj in (job(name=name), rayjob(group(), name=name), raycluster(group(name))):
        assert len(refusal(obj)) < 900


class TestQueue:
    """With a queue, without one, and with somebody else's."""

    def test_of_the_manifest(self) -> None:
        gang = gang_of(job())
        assert (gang.queue, gang.managed) == ("user-queue", True)

    def test_of_whoever_submits(self) -> None:
        assert gang_of(job(labels={}), queue="other").queue == "other"
        assert gang_of(job(labels=QUEUE), queue="other").queue == "user-queue"

    def test_none_is_told(self) -> None:
        gang = gang_of(job(labels={}))
        assert gang.unmanaged is not None
        assert gang.unmanaged.code is NoteCode.NO_QUEUE

    def test_without_one_its_rules_are_notes(self) -> None:
        obj = rayjob(group(), labels={}, shutdownAfterJobFinishes=False)
        gang = gang_of(obj)
        assert [n.field for n in gang.notes_of(NoteCode.NEEDS_FOR_QUEUE)] == [
            "spec.shutdownAfterJobFinishes"
        ]
        with pytest.raises(ManifestError, match="must be true on a queue"):
            gang_of(obj, queue="user-queue")

    @pytest.mark.parametrize(
        ("labels", "scheduler"),
        [
            ({"volcano.sh/queue-name": "training"}, ""),
            ({"kai.scheduler/queue": "rl"}, ""),
            ({}, "kai-scheduler"),
        ],
    )
    def test_of_another_system(self, labels: dict[str, str], scheduler: str) -> None:
        template = small()
        if scheduler:
            template["spec"]["schedulerName"] = scheduler
        gang = gang_of(raycluster(group("w", 1, template), labels=labels))
        assert gang.unmanaged is not None
        assert gang.unmanaged.code is NoteCode.OTHER_SCHEDULER
        with_ours = gang_of(raycluster(group("w", 1, template), labels={**labels, **QUEUE}))
        assert with_ours.managed
        assert with_ours.notes_of(NoteCode.OTHER_SCHEDULER)

    def test_a_cluster_of_a_rayjob_is_covered_by_it(self) -> None:
        owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "controller": True}
        gang = gang_of(put(raycluster(group()), "metadata.ownerReferences", [owner]))
        assert gang.unmanaged is not None
        assert gang.unmanaged.code is NoteCode.OWNED

    def test_a_job_that_runs_elsewhere(self) -> None:
        gang = gang_of(job(managedBy="kueue.x-k8s.io/multikueue"))
        assert gang.unmanaged is not None
        assert gang.unmanaged.code is NoteCode.MANAGED_ELSEWHERE

    @pytest.mark.parametrize("queue", ["a_b", "A", "a..b"])
    def test_a_name_that_no_queue_can_have(self, queue: str) -> None:
        assert "is not a queue's name" in refusal(job(labels={"kueue.x-k8s.io/queue-name": queue}))

    def test_the_priority_is_kueues(self) -> None:
        labels = {**QUEUE, "kueue.x-k8s.io/priority-class": "high"}
        assert gang_of(job(labels=labels)).priority_class == "high"


class TestNotes:
    def test_an_autoscaler_that_cannot_size_its_workers(self) -> None:
        def notes(template: Obj, **fields: Any) -> list[str]:
            one = group("w", 2, template, **fields)
            obj = raycluster(one, annotations=ELASTIC, enableInTreeAutoscaling=True)
            found = gang_of(obj).notes_of(NoteCode.AUTOSCALER_CANNOT_SIZE)
            return [note.message.partition(": ")[2] for note in found]

        asks = pod(container("ray", {"cpu": "4"}))
        assert notes(pod(container("ray"))) == [
            "the Ray autoscaler cannot tell what a worker offers and will not start"
        ]
        assert notes(asks) == ["Ray before 2.41 cannot size it and stops autoscaling"]
        assert notes(asks, rayStartParams={"num-cpus": "4"}) == []
        assert notes(small()) == []

    def test_a_head_that_may_take_a_workers_node(self) -> None:
        head = small("2", "4Gi")
        head["spec"]["tolerations"] = [{"key": GPU, "operator": "Exists"}]
        workers = group("w", 1, small("4", "16Gi", **{GPU: "1"}))
        gang = gang_of(raycluster(workers, head=head))
        assert gang.notes_of(NoteCode.HEAD_TOLERATES_ACCELERATORS)
        plain = gang_of(raycluster(workers))
        assert not plain.notes_of(NoteCode.HEAD_TOLERATES_ACCELERATORS)

    @pytest.mark.parametrize(
        ("memory", "code"),
        [
            ("8", NoteCode.TINY_MEMORY),
            ("15Mi", NoteCode.TINY_MEMORY),
            ("100m", NoteCode.FRACTION_OF_BYTE),
        ],
    )
    def test_memory_that_is_probably_not_meant(self, memory: str, code: NoteCode) -> None:
        gang = gang_of(job(pod(container(requests={"cpu": "1", "memory": memory}))))
        assert [n.code for n in gang.notes] == [code]

    def test_a_consume_annotation_by_hand(self) -> None:
        key = "autoscaling.x-k8s.io/consume-provisioning-request"
        template = put(small(), "metadata.annotations", {key: "old"})
        notes = gang_of(raycluster(group("w", 1, template))).notes_of(NoteCode.STALE_ANNOTATION)
        assert ["from ever helping" in n.message for n in notes] == [True]

    def test_no_entrypoint(self) -> None:
        assert gang_of(rayjob(group(), entrypoint="")).notes_of(NoteCode.NO_ENTRYPOINT)
        later = rayjob(group(), entrypoint="", submissionMode="InteractiveMode")
        assert not gang_of(later).notes_of(NoteCode.NO_ENTRYPOINT)

    def test_a_plain_gang_needs_none(self) -> None:
        assert gang_of(job()).notes == ()
        assert gang_of(rayjob(group())).notes == ()


def test_a_group_describes_itself() -> None:
    gang = gang_of(raycluster(group("w", 8, small("4", "16Gi", **{GPU: "1"}))))
    assert gang.group("w").describe() == "8 x w: 4 CPU, 16Gi memory, 1 nvidia.com/gpu"
    assert gang.total == amounts(cpu="34", memory="132Gi", gpu="8")
