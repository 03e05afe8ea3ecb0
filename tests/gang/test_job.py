"""A batch Job: how many pods at once, and what the API server or Kueue would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import NoteCode, Role, gang_of
from tests.gang.objects import ELASTIC, amounts, container, job, pod

MIN = "kueue.x-k8s.io/job-min-parallelism"
SYNC = "kueue.x-k8s.io/job-completions-equal-parallelism"


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        pytest.param({}, 1, id="one by default"),
        pytest.param({"parallelism": 5}, 5, id="a work queue"),
        pytest.param({"parallelism": 100, "completions": 3}, 3, id="no more than are needed"),
        pytest.param({"parallelism": 3, "completions": 100}, 3, id="no more than at once"),
        pytest.param({"completions": 7}, 1, id="one after the other"),
        pytest.param({"parallelism": 0, "completions": 10}, 0, id="paused"),
        pytest.param({"parallelism": 50, "completions": 1}, 1, id="one completion is one pod"),
        pytest.param({"parallelism": 4, "completions": 0}, 0, id="nothing to complete"),
        pytest.param({"parallelism": None, "completions": None}, 1, id="null is not written"),
        pytest.param({"parallelism": 2.0}, 2, id="a whole number with a point"),
    ],
)
def test_pods_at_once(spec: dict[str, Any], pods: int) -> None:
    gang = gang_of(job(**spec))
    main = gang.group("main")
    assert (main.role, main.count, main.counted.count) == (Role.MAIN, pods, pods)
    assert gang.total == ({} if pods == 0 else amounts(cpu=f"{pods}", memory=f"{pods}Gi"))
    assert bool(gang.notes_of(NoteCode.NO_PODS)) is (pods == 0)


def test_partial_admission_keeps_the_full_count_and_says_the_least() -> None:
    main = gang_of(job(parallelism=20, completions=20, annotations={MIN: "5"})).group("main")
    assert (main.count, main.min_count) == (20, 5)


def test_an_elastic_job_is_told_that_nothing_holds_its_growth() -> None:
    gang = gang_of(job(parallelism=3, completions=100, annotations=ELASTIC))
    assert gang.elastic
    assert gang.notes_of(NoteCode.NO_BRAKE)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"parallelism": -1}, "spec.parallelism: -1 must not be", id="negative"),
        pytest.param({"parallelism": 2**31}, "beyond 2147483647", id="beyond 32 bits"),
        pytest.param({"parallelism": "3"}, "must be a whole number, not '3'", id="text"),
        pytest.param({"parallelism": 1.5}, "must be a whole number, not 1.5", id="a half"),
        pytest.param({"parallelism": True}, "must be a whole number, not true", id="a flag"),
        pytest.param({"completionMode": "Sorted"}, "write NonIndexed or Indexed", id="mode"),
        pytest.param({"completionMode": "Indexed"}, "needs a number", id="Indexed without one"),
        pytest.param(
            {"completionMode": "Indexed", "completions": 100001, "parallelism": 100001},
            "above 100000",
            id="too many at once for Indexed",
        ),
        pytest.param({"suspend": "yes"}, "must be true or false, not 'yes'", id="suspend as text"),
        pytest.param({"template": None}, "at least one container", id="no template"),
    ],
)
def test_refuses(changes: dict[str, Any], says: str) -> None:
    obj = job()
    obj["spec"].update(changes)
    if changes.get("template", "") is None:
        obj["spec"]["template"] = {"spec": {"restartPolicy": "Never"}}
    with pytest.raises(ManifestError, match=says) as refused:
        gang_of(obj)
    assert refused.value.message.startswith("job team-a/train: spec.")


@pytest.mark.parametrize("policy", [None, "Always", "Sometimes"])
def test_refuses_pods_that_never_end(policy: str | None) -> None:
    template = pod(container())
    template["spec"]["restartPolicy"] = policy
    with pytest.raises(ManifestError, match="need Never or OnFailure"):
        gang_of(job(template))


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        ({MIN: "abc"}, "'abc' is not a whole number; write 1 to 3"),
        ({MIN: "0"}, "0 is not between 0 and the Job's 4 pods"),
        ({MIN: "4"}, "4 is not between 0 and the Job's 4 pods"),
        ({MIN: "9" * 50}, "is not a whole number"),
        ({MIN: "2", **ELASTIC}, "keep one of the two"),
        ({SYNC: "perhaps"}, "neither 'true' nor 'false'"),
        ({SYNC: "true"}, "needs completionMode: Indexed"),
        ({MIN: 2}, "must be text, not a number: write '2' in quotes"),
    ],
)
def test_refuses_what_kueue_would(annotations: dict[str, Any], says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        gang_of(job(parallelism=4, completions=4, annotations=annotations))


def test_an_indexed_job_whose_parallelism_follows_its_completions() -> None:
    spec: dict[str, Any] = {"completionMode": "Indexed", "parallelism": 4}
    gang = gang_of(job(completions=4, annotations={SYNC: "true"}, **spec))
    assert gang.pods == 4
    with pytest.raises(ManifestError, match="8 must equal parallelism 4"):
        gang_of(job(completions=8, annotations={SYNC: "true"}, **spec))


def test_host_names_of_an_indexed_job_must_fit() -> None:
    long = "a" * 62
    assert gang_of(job(name=long, parallelism=2, completions=2)).pods == 2
    with pytest.raises(ManifestError, match="shorten it"):
        gang_of(job(name=long, parallelism=2, completions=2, completionMode="Indexed"))


def test_a_name_may_be_left_to_the_api_server() -> None:
    obj = job()
    obj["metadata"] = {"generateName": "train-"}
    gang = gang_of(obj)
    assert (gang.name, gang.generate_name, gang.namespace) == ("", "train-", "")
    del obj["metadata"]["generateName"]
    with pytest.raises(ManifestError, match="write a name, or generateName"):
        gang_of(obj)
