"""`status` and `list`: what they print, and what they do where something cannot be read."""

from __future__ import annotations

import pytest
import yaml

from taugrid_ray import names, sentences
from taugrid_ray.errors import Forbidden, NotFound, ServerFault
from taugrid_ray.kinds.resource import (
    EVENT,
    JOB,
    POD,
    PROVISIONING_REQUEST,
    RAY_JOB,
    WORKLOAD,
)
from tests.cli.conftest import World, refuse
from tests.jobs.builders import (
    HEAD,
    SUBMITTER,
    T0,
    check,
    job,
    pod,
    ray_job,
    request,
    workload,
)

ASKED = sentences.requested(sentences.size([("gpu", 3)]), "attempt 1 of 3", T0 + 900).sentence
RESERVED = {"QuotaReserved": "True"}


@pytest.fixture
def asking(world: World) -> World:
    owner = job()
    world.put(JOB, owner)
    w = workload(owner, told=RESERVED, checks=[check(message=ASKED)])
    world.put(WORKLOAD, w)
    world.put(PROVISIONING_REQUEST, request(w))
    return world


def test_status_says_stage_sentence_request_and_pods(asking: World) -> None:
    result = asking.run("status", "train")
    assert result.exit_code == 0
    first, second, *rest = result.stdout.splitlines()
    assert first == "job default/train: Provisioning (CapacityRequested, 0s)"
    assert second == f"  {ASKED}"
    text = "\n".join(rest)
    assert 'request "train-gpu-1": 3 pods in pool "gpu": no answer yet' in text
    assert "queue                  team-a" in text
    assert "pods                   0 of 3 ready" in text
    assert result.stderr == ""


def test_status_as_json_yaml_and_name(asking: World) -> None:
    report = asking.json("status", "job/train")
    assert (report["stage"], report["message"]) == ("Provisioning", ASKED)
    assert report["requests"][0]["name"] == "train-gpu-1"
    as_yaml = asking.run("status", "train", "-o", "yaml").stdout
    assert yaml.safe_load(as_yaml)["stage"] == "Provisioning"
    assert asking.run("status", "train", "-o", "name").stdout == "job/train\n"


def test_a_job_that_is_not_there_is_an_error_with_the_nearest_name(asking: World) -> None:
    result = asking.run("status", "trian")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        'taugrid: no job or rayjob "trian" in namespace "default" (did you mean job/train?)\n'
    )


def test_without_kuberay_a_job_is_still_found(asking: World) -> None:
    refuse(asking, "*", RAY_JOB, NotFound("the server could not find the requested resource"))
    assert asking.run("status", "train").exit_code == 0
    assert asking.run("list").exit_code == 0


def test_a_job_that_may_not_be_read_is_not_called_missing(world: World) -> None:
    refuse(world, "get", JOB, Forbidden("jobs.batch is forbidden"))
    result = world.run("status", "train")
    assert (result.exit_code, result.stderr) == (1, "taugrid: jobs.batch is forbidden\n")


def test_a_name_that_is_both_must_be_told_apart(asking: World) -> None:
    asking.put(RAY_JOB, ray_job())
    result = asking.run("status", "train")
    assert result.exit_code == 2
    assert "write job/train or rayjob/train" in result.stderr
    assert asking.run("status", "rayjob/train").exit_code == 0


def test_a_submitter_job_is_not_the_rayjobs_rival(world: World) -> None:
    owner = world.put(RAY_JOB, ray_job())
    submitter = job(
        queue="",
        ownerReferences=[
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "name": "train",
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ],
    )
    world.put(JOB, submitter)
    assert world.run("status", "train", "-o", "name").stdout == "rayjob/train\n"
    assert world.run("list", "-o", "name").stdout == "rayjob/train\n"


@pytest.mark.parametrize("name", ["Train", "a/b/c", "pod/x", "..", "x y", "\x1b[31mx", "rayjob/"])
def test_a_name_that_is_none_is_a_usage_error_and_asks_nobody(world: World, name: str) -> None:
    result = world.run("status", name)
    assert result.exit_code == 2
    assert result.stderr.startswith("taugrid: ")
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr
    assert not world.kube.calls


@pytest.mark.parametrize("kind", [WORKLOAD, POD, EVENT, PROVISIONING_REQUEST])
@pytest.mark.parametrize("error", [Forbidden("no right to it"), ServerFault("down")])
def test_a_part_that_cannot_be_read_is_named(asking: World, kind: object, error: Exception) -> None:
    asking.kube.fail("list", kind, error, times=100)  # type: ignore[arg-type]
    result = asking.run("status", "train")
    assert result.exit_code == 0
    assert "could not be read: " in result.stderr
    report = asking.json("status", "train")
    parts = {n for n, o in report["observations"].items() if o["status"] == "unavailable"}
    assert len(parts) == 1
    assert report["degraded"] is (kind in (WORKLOAD, POD))


def test_escapes_of_users_and_controllers_never_reach_the_terminal(world: World) -> None:
    evil = "\x1b]0;title\x07\x9b31m\u202eevil\nforged: line"
    owner = job()
    world.put(JOB, owner)
    told = {"QuotaReserved": ("False", "Pending", evil, 5.0)}
    world.put(WORKLOAD, workload(owner, told=told))
    for args in (["status", "train"], ["list", "-o", "wide"], ["status", "train", "-o", "json"]):
        output = world.run(*args).output
        assert "evil" in output
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(output)
        assert not any(line.startswith("forged") for line in output.splitlines())


def test_list_has_a_row_for_each_job_with_a_queue(asking: World) -> None:
    asking.put(JOB, {**job("plain", queue=""), "metadata": {**job("plain", queue="")["metadata"],
                                                            "uid": "plain-uid"}})  # fmt: skip
    runs = ray_job("ray", suspend=False, deployment="Running", program="RUNNING",
                   cluster="train-abc")  # fmt: skip
    asking.put(RAY_JOB, runs)
    asking.put(WORKLOAD, workload(runs, told={**RESERVED, "Admitted": "True"}))
    asking.put(POD, pod("h", node="n", ready=True, phase="Running", labels=HEAD))
    asking.put(POD, pod("s", node="n", ready=True, phase="Running",
                        labels={**SUBMITTER, names.JOB_NAME: "ray"}))  # fmt: skip
    result = asking.run("list")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NAME", "QUEUE", "STAGE", "REASON", "PODS", "AGE"],
        ["rayjob/ray", "team-a", "Running", "Running", "2/3", "0s"],
        ["job/train", "team-a", "Provisioning", "CapacityRequested", "0/3", "0s"],
    ]
    assert ASKED in asking.run("list", "-o", "wide").stdout
    assert [i["name"] for i in asking.json("list")["items"]] == ["ray", "train"]


def test_list_of_all_namespaces_and_of_active_jobs(asking: World) -> None:
    other = job("done", ended={"Complete": "True"}, status={"succeeded": 3})
    other["metadata"] |= {"namespace": "team-b", "uid": "other"}
    asking.put(JOB, other)
    rows = asking.run("list", "-A").stdout.splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["NAMESPACE", "NAME"], ["default", "job/train"], ["team-b", "job/done"],
    ]  # fmt: skip
    assert "job/done" not in asking.run("list", "-A", "--active").stdout
    assert asking.run("list", "-A", "-n", "default").exit_code == 2


def test_an_empty_list_says_so_and_is_no_error(world: World) -> None:
    result = world.run("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == 'no jobs with a queue in namespace "default"\n'
    assert world.json("list") == {"schemaVersion": "v1alpha1", "items": []}


def test_a_list_of_which_nothing_may_be_read_is_an_error(asking: World) -> None:
    refuse(asking, "list", JOB, Forbidden("jobs are forbidden"))
    refuse(asking, "list", RAY_JOB, NotFound("no such resource"))
    result = asking.run("list")
    assert (result.exit_code, result.stderr) == (1, "taugrid: jobs are forbidden\n")


def test_a_list_that_cannot_be_read_whole_says_what_is_missing(asking: World) -> None:
    refuse(asking, "list", RAY_JOB, Forbidden("rayjobs are forbidden"))
    result = asking.run("list")
    assert result.exit_code == 0
    assert "job/train" in result.stdout
    assert result.stderr == "note: rayjobs could not be read: rayjobs are forbidden\n"
