"""`cancel` ends all of a job and may be repeated; `resume` starts a parked one afresh."""

from __future__ import annotations

import json

import pytest

from taugrid_ray import names
from taugrid_ray.errors import Conflict, Forbidden, Unreachable
from taugrid_ray.kinds.resource import JOB, POD, RAY_CLUSTER, RAY_JOB, WORKLOAD
from taugrid_ray.memory import Memory, Pause
from tests.cli.conftest import World, interrupted, refuse
from tests.jobs.builders import HEAD, check, job, pod, ray_job, workload

GAVE_UP = Memory(Pause.GAVE_UP, failures=3, message="why")
PARKED = Memory(Pause.PARKED, failures=1, message="why", resume_at_s=99.0)
KUEUES = ["kueue.x-k8s.io/resource-in-use"]


# cancel


@pytest.fixture
def runs(world: World) -> World:
    """A RayJob with its cluster, a pod and a Workload that Kueue lets go of in its own time."""
    owner = world.put(RAY_JOB, ray_job(suspend=False, deployment="Running", cluster="train-abc"))
    world.put(WORKLOAD, workload(owner, told={"Admitted": "True"}, finalizers=KUEUES))
    ref = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train",
           "uid": owner["metadata"]["uid"], "controller": True}  # fmt: skip
    world.put(
        RAY_CLUSTER,
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "train-abc", "namespace": "default", "ownerReferences": [ref]},
            "spec": {},
        },
    )
    world.put(POD, pod("head", node="n", phase="Running", labels=HEAD))
    return world


def _end_of(world: World) -> None:
    world.then(
        lambda: world.kube.collect_garbage(),
        lambda: world.gone(WORKLOAD, "rayjob-train-wl"),
        lambda: world.gone(POD, "head"),
    )


def test_cancel_waits_until_all_of_it_is_gone(runs: World) -> None:
    _end_of(runs)
    result = runs.run("cancel", "train")
    assert result.exit_code == 0, result.output
    assert result.stdout == "rayjob/train is gone\n"
    said = [line.strip() for line in result.stderr.splitlines()]
    assert said == [
        "waits for workload rayjob-train-wl, raycluster train-abc, pod head",
        "waits for workload rayjob-train-wl, pod head",
        "waits for pod head",
    ]
    for kind in (RAY_JOB, RAY_CLUSTER, WORKLOAD, POD):
        assert not runs.kube.objects(kind)


def test_cancel_may_be_repeated(runs: World) -> None:
    _end_of(runs)
    assert runs.run("cancel", "train").exit_code == 0
    again = runs.run("cancel", "rayjob/train")
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr == ('no rayjob "train" in namespace "default": nothing to cancel\n')
    as_json = runs.run("cancel", "train", "-o", "json")
    assert json.loads(as_json.stdout)["deleted"] is False


def test_cancel_of_a_job_that_is_going_waits_on(runs: World) -> None:
    runs.kube.patch(RAY_JOB, "train", {"metadata": {"finalizers": ["x/y"]}}, "default")
    runs.kube.delete(RAY_JOB, "train", "default")
    runs.then(lambda: runs.gone(RAY_JOB, "train"))
    _end_of(runs)
    assert runs.run("cancel", "train").exit_code == 0


def test_cancel_finds_a_cluster_that_came_late(world: World) -> None:
    """The RayJob named no cluster when the cancel began."""
    owner = world.put(RAY_JOB, {**ray_job(), "metadata": {**ray_job()["metadata"],
                                                          "finalizers": ["x/y"]}})  # fmt: skip
    assert owner["status"]["rayClusterName"] == ""
    world.put(POD, pod("head", node="n", phase="Running", labels=HEAD))
    status = {"status": {"rayClusterName": "train-abc"}}
    world.then(
        lambda: world.kube.patch(RAY_JOB, "train", status, "default", sub="status"),
        lambda: world.gone(RAY_JOB, "train"),
        lambda: None,
        lambda: world.gone(POD, "head"),
    )
    result = world.run("cancel", "train")
    assert result.exit_code == 0, result.output
    assert "pod head" in result.stderr
    assert not world.kube.objects(POD)


def test_cancel_that_takes_too_long_says_what_is_left(runs: World) -> None:
    result = runs.run("cancel", "train", "--timeout", "5s")
    assert result.exit_code == 124
    last = result.stderr.splitlines()[-1]
    assert "after 5 s there still is workload rayjob-train-wl" in last
    assert "taugrid cancel rayjob/train -n default" in last
    assert not runs.kube.objects(RAY_JOB)


def test_cancel_without_waiting_is_honest(runs: World) -> None:
    result = runs.run("cancel", "train", "--no-wait")
    assert result.exit_code == 0
    assert "is being deleted; its pods and its quota may still be held" in result.stdout
    assert not runs.kube.objects(RAY_JOB)
    assert runs.sleeps == 0


def test_a_server_that_is_away_is_no_sign_of_being_gone(runs: World) -> None:
    gone = Unreachable("list Workload default: no answer")
    runs.then(lambda: runs.kube.fail("list", WORKLOAD, gone, times=3))
    _end_of(runs)
    result = runs.run("cancel", "train")
    assert result.exit_code == 0
    assert not runs.kube.objects(WORKLOAD)
    assert "no answer" in result.stderr


def test_cancel_without_the_right_to_see_workloads_waits_for_the_rest(runs: World) -> None:
    refuse(runs, "list", WORKLOAD, Forbidden("no right"))
    runs.then(lambda: runs.kube.collect_garbage(), lambda: runs.gone(POD, "head"))
    assert runs.run("cancel", "train").exit_code == 0


def test_cancel_without_the_right_to_delete_is_an_error(runs: World) -> None:
    refuse(runs, "delete", RAY_JOB, Forbidden("no right to delete"))
    result = runs.run("cancel", "train")
    assert (result.exit_code, result.stderr) == (1, "taugrid: no right to delete\n")


def test_cancel_deletes_only_the_one_it_found(runs: World) -> None:
    """Somebody makes the job anew between the look and the delete."""

    def anew() -> None:
        runs.kube.on_call = None
        runs.gone(RAY_JOB, "train")
        other = ray_job()
        other["metadata"]["uid"] = "other-uid"
        runs.put(RAY_JOB, other)

    runs.kube.on_call = lambda call: anew() if call.verb == "delete" else None
    _end_of(runs)
    assert runs.run("cancel", "train").exit_code == 0
    (left,) = runs.kube.objects(RAY_JOB)
    assert left["metadata"]["uid"] == "other-uid"


def test_ctrl_c_during_cancel_says_that_it_ends_all_the_same(runs: World) -> None:
    runs.then(interrupted)
    result = runs.run("cancel", "train")
    assert result.exit_code == 130
    assert "is being deleted all the same" in result.stderr


# resume


def _parked(world: World, memory: Memory | None = GAVE_UP) -> None:
    world.put(WORKLOAD, workload(world.put(JOB, job()), active=False, memory=memory))


@pytest.mark.parametrize("memory", [GAVE_UP, PARKED, None], ids=["gave up", "parked", "by a user"])
def test_resume_makes_it_active_and_forgets_in_one_patch(
    world: World, memory: Memory | None
) -> None:
    _parked(world, memory)
    result = world.run("resume", "train")
    assert (result.exit_code, result.stdout) == (0, "job/train resumed\n"), result.output
    found = world.workload()
    assert found["spec"]["active"] is True
    assert names.MEMORY not in found["metadata"].get("annotations", {})
    (write,) = world.kube.written()
    assert "resourceVersion" in write.call.body["metadata"]


def test_resume_of_a_job_that_is_not_parked_changes_nothing(world: World) -> None:
    world.put(WORKLOAD, workload(world.put(JOB, job()), told={"QuotaReserved": "True"},
                                 checks=[check()]))  # fmt: skip
    for _ in range(2):
        result = world.run("resume", "train")
        assert (result.exit_code, result.stdout) == (0, "job/train unchanged\n")
        assert "is not parked: Provisioning: " in result.stderr
        assert not world.kube.written()


def test_resume_decides_again_when_somebody_else_wrote_first(world: World) -> None:
    _parked(world)
    world.kube.fail("patch", WORKLOAD, Conflict("changed meanwhile"), times=2)
    assert world.run("resume", "train").exit_code == 0
    assert world.workload()["spec"]["active"] is True


def test_resume_gives_up_after_some_conflicts(world: World) -> None:
    _parked(world)
    world.kube.fail("patch", WORKLOAD, Conflict("changed meanwhile"), times=99)
    result = world.run("resume", "train")
    assert (result.exit_code, result.stderr) == (1, "taugrid: changed meanwhile\n")


@pytest.mark.parametrize(
    ("owner", "check_state", "says"),
    [
        pytest.param(job(ended={"Complete": "True"}), "", "has ended", id="ended"),
        pytest.param(job(), "Rejected", "was refused for good", id="refused"),
    ],
)
def test_what_cannot_be_resumed_says_so(
    world: World, owner: dict[str, object], check_state: str, says: str
) -> None:
    checks = [check(check_state, "never")] if check_state else []
    world.put(WORKLOAD, workload(world.put(JOB, owner), checks=checks))
    result = world.run("resume", "train")
    assert result.exit_code == 125
    assert says in result.stderr
    assert not world.kube.written()


def test_resume_without_the_right_to_see_the_workload(world: World) -> None:
    _parked(world)
    refuse(world, "list", WORKLOAD, Forbidden("workloads are forbidden"))
    result = world.run("resume", "train")
    assert result.exit_code == 1
    assert "its Workload cannot be read: workloads are forbidden" in result.stderr


def test_resume_and_wait(world: World) -> None:
    _parked(world)
    world.then(lambda: world.put(JOB, job(status={"succeeded": 3}, ended={"Complete": "True"})))
    result = world.run("resume", "train", "--wait")
    assert result.exit_code == 0
    assert result.stdout == "job default/train: Succeeded: all of it succeeded (3 pods)\n"
    assert world.run("resume", "train", "--timeout", "3s").exit_code == 2
