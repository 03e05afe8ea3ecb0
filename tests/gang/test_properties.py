"""What holds for every manifest: sums, order, and no other end than a gang or one sentence."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import Gang, gang_of, gangs_in
from tests.gang.objects import (
    ELASTIC,
    GPU,
    Obj,
    container,
    group,
    job,
    pod,
    raycluster,
    rayjob,
    small,
)

_cpu = st.sampled_from(["1", "1500m", "0.1", "4", "16"])
_memory = st.sampled_from(["256Mi", "1Gi", "5G", "128974848"])
_template = st.builds(small, _cpu, _memory, **{GPU: st.sampled_from(["0", "1", "8"])})


@st.composite
def _groups(draw: st.DrawFn) -> list[Obj]:
    found = []
    for i in range(draw(st.integers(0, 4))):
        least = draw(st.integers(0, 3))
        more = {
            "minReplicas": least,
            "maxReplicas": least + draw(st.integers(0, 5)),
            "numOfHosts": draw(st.integers(1, 4)),
            "suspend": draw(st.booleans()),
        }
        found.append(group(f"g{i}", draw(st.integers(0, 9)), draw(_template), **more))
    return found


_mode = st.sampled_from(["K8sJobMode", "SidecarMode", "HTTPMode", "InteractiveMode"])
_objects = st.one_of(
    st.builds(job, _template, parallelism=st.integers(0, 99), completions=st.integers(1, 99)),
    st.builds(lambda gs: raycluster(*gs), _groups()),
    st.builds(lambda gs, mode: rayjob(*gs, submissionMode=mode), _groups(), _mode),
)


def check_sentence(refused: ManifestError) -> None:
    """On one line, with nothing that a terminal would obey."""
    for text in (refused.message, refused.hint):
        assert text.isprintable(), text


def _sum(gang: Gang) -> dict[str, Fraction]:
    summed: dict[str, Fraction] = {}
    for one in gang.groups:
        for name, amount in one.per_pod.items():
            summed[name] = summed.get(name, Fraction(0)) + one.count * amount
    return {name: amount for name, amount in summed.items() if amount}


@settings(deadline=None)
@given(_objects)
def test_the_total_is_the_sum_over_the_pod_sets(obj: Obj) -> None:
    gang = gang_of(obj)
    assert gang.total == _sum(gang)
    assert gang.pods == sum(one.count for one in gang.groups)


@settings(deadline=None)
@given(_groups())
def test_each_group_makes_what_kuberay_makes(groups: list[Obj]) -> None:
    """Replicas between the least and the most, each of all its hosts; none while suspended."""
    gang = gang_of(raycluster(*groups))
    for written in groups:
        one = gang.group(written["groupName"])
        wanted = sorted([written["minReplicas"], written["replicas"], written["maxReplicas"]])[1]
        pods = 0 if written["suspend"] else wanted * written["numOfHosts"]
        assert one.count == pods
        assert one.counted.count == written["replicas"] * written["numOfHosts"]


@settings(deadline=None)
@given(_objects)
def test_reading_changes_nothing_and_gives_the_same_again(obj: Obj) -> None:
    before = copy.deepcopy(obj)
    assert gang_of(obj) == gang_of(obj)
    assert obj == before


@settings(deadline=None)
@given(st.lists(_objects, min_size=1, max_size=5), st.randoms())
def test_the_order_of_documents_does_not_matter(objects: list[Obj], random: Any) -> None:
    shuffled = list(objects)
    random.shuffle(shuffled)
    one, other = (
        gangs_in("\n---\n".join(json.dumps(o) for o in some)) for some in (objects, shuffled)
    )
    assert len(one.gangs) == len(objects)
    assert sorted(map(str, one.gangs)) == sorted(map(str, other.gangs))


@settings(deadline=None)
@given(_objects, st.randoms())
def test_the_order_of_keys_does_not_matter(obj: Obj, random: Any) -> None:
    shuffled = gang_of(_shuffled(obj, random))
    gang = gang_of(obj)
    assert shuffled.total == gang.total
    assert [g.name for g in shuffled.groups] == [g.name for g in gang.groups]
    assert {n.message for n in shuffled.notes} == {n.message for n in gang.notes}


def _shuffled(value: Any, random: Any) -> Any:
    if isinstance(value, list):
        return [_shuffled(one, random) for one in value]
    if not isinstance(value, dict):
        return value
    pairs = [(key, _shuffled(below, random)) for key, below in value.items()]
    random.shuffle(pairs)
    return dict(pairs)


@settings(deadline=None)
@given(_groups(), st.integers(2, 5))
def test_k_times_the_replicas_are_k_times_the_workers(groups: list[Obj], times: int) -> None:
    for one in groups:
        one.update(minReplicas=0, maxReplicas=10**6)
    once = gang_of(raycluster(*groups))
    for one in groups:
        one["replicas"] *= times
    more = gang_of(raycluster(*groups))
    for name in {*once.total, *more.total}:
        workers = once.total.get(name, 0) - once.group("head").total.get(name, 0)
        assert more.total.get(name, 0) == once.group("head").total.get(name, 0) + times * workers


_FULL: list[Obj] = [
    job(
        pod(
            container("a", {"cpu": "1"}, {"cpu": "2"}),
            initContainers=[container("side", {"cpu": "1"}, restartPolicy="Always")],
            resources={"requests": {"cpu": "4"}, "limits": {"cpu": "8"}},
            overhead={"cpu": "1"},
            nodeSelector={"pool": "a"},
            tolerations=[{"key": "k"}],
            schedulingGates=[{"name": "g"}],
        ),
        parallelism=2,
        completions=2,
        completionMode="Indexed",
        annotations={"kueue.x-k8s.io/job-min-parallelism": "1"},
    ),
    rayjob(
        group(
            "w",
            1,
            small("4", "8Gi", **{GPU: "1"}),
            minReplicas=0,
            maxReplicas=4,
            numOfHosts=2,
            idleTimeoutSeconds=60,
            rayStartParams={"num-cpus": "4", "resources": '"{\\"a\\": 1}"'},
            labels={"zone": "a"},
        ),
        annotations=ELASTIC,
        runtimeEnvYAML="pip: [a]",
        submissionMode="K8sJobMode",
        submitterPodTemplate=pod(container("s", {"cpu": "1"}), restartPolicy="Never"),
        ttlSecondsAfterFinished=60,
        cluster={
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"version": "v2", "resources": {"requests": {"cpu": "1"}}},
            "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        },
    ),
    rayjob(
        group(),
        labels={},
        shutdownAfterJobFinishes=False,
        deletionStrategy={
            "deletionRules": [
                {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}}
            ]
        },
    ),
]
_odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "1", "-1", "1e9", "true", "${X}", "\x1b[2J", "K8sJobMode", "v2"]),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=6,
)


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, below in pairs:
        yield (*above, key)
        yield from _places(below, (*above, key))


@st.composite
def _spoilt(draw: st.DrawFn) -> Any:
    """A manifest of which up to three places hold something odd."""
    obj = copy.deepcopy(draw(st.sampled_from(_FULL)))
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(sorted(_places(obj), key=str)))
        place = obj
        for key in above:
            place = place[key]
        place[last] = draw(_odd)
    return obj


@settings(max_examples=600, deadline=None)
@given(_spoilt())
@example(job(parallelism=math.inf))
@example(job(parallelism=math.nan))
def test_a_spoilt_manifest_is_a_gang_or_one_sentence(obj: Any) -> None:
    try:
        gang = gang_of(obj)
    except ManifestError as refused:
        check_sentence(refused)
        return
    assert gang.total == _sum(gang)
    assert all(note.message.isprintable() and note.field.isprintable() for note in gang.notes)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=200),
        st.binary(max_size=200),
        st.text(alphabet="{}[]:,-&*!|>'\"%@`#? \n\tab1<~", max_size=60),
        _spoilt().map(lambda obj: json.dumps(obj)),
    )
)
def test_any_text_is_read_or_refused_in_one_sentence(text: str | bytes) -> None:
    try:
        found = gangs_in(text, name="f.yaml")
    except ManifestError as refused:
        check_sentence(refused)
        return
    for document in found.documents:
        assert document.subject.isprintable()
        if document.wrong is not None:
            check_sentence(document.wrong)
