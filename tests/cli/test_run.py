"""`run`: a bad manifest is refused before anybody is asked, a good one is made once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from taugrid_ray import names
from taugrid_ray.errors import ApiError, Conflict, Forbidden, Unreachable
from taugrid_ray.kinds.resource import CONFIG_MAP, JOB, RAY_JOB, WORKLOAD, Obj
from tests.cli.conftest import World, interrupted, manifest, refuse
from tests.jobs.builders import job, pod, ray_job, workload

RAY_SPEC = {
    "shutdownAfterJobFinishes": True,
    "entrypoint": "python train.py",
    "rayClusterSpec": {
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "ray-head",
                            "image": "rayproject/ray:2.56.0",
                            "resources": {"limits": {"cpu": "1", "memory": "2Gi"}},
                        }
                    ]
                }
            },
        },
        "workerGroupSpecs": [],
    },
}


def _job(**changed: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {names.QUEUE: "team-a"}},
        "spec": {**job()["spec"], "suspend": None, **changed},
    }


def _ray() -> Obj:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "train", "labels": {names.QUEUE: "team-a"}},
        "spec": RAY_SPEC,
    }


def _file(tmp_path: Path, *objects: Obj) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return _file(tmp_path, _job())


def test_a_job_is_made_suspended_and_marked(world: World, file: str) -> None:
    result = world.run("run", "job", "-f", file)
    assert result.exit_code == 0, result.output
    assert result.stdout == "job/train created\n"
    assert "asks for 3 x main" in result.stderr
    assert "taugrid wait job/train -n default" in result.stderr
    (made,) = world.kube.objects(JOB)
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"][names.QUEUE] == "team-a"
    assert len(made["metadata"]["annotations"][names.MANIFEST]) == 16


def test_the_same_file_twice_makes_nothing_twice_and_says_so(world: World, file: str) -> None:
    assert world.run("run", "job", "-f", file).exit_code == 0
    again = world.run("run", "job", "-f", file)
    assert (again.exit_code, again.stdout) == (0, "job/train unchanged\n")
    assert "is there already, made from this manifest; nothing new was made" in again.stderr
    assert len(world.kube.objects(JOB)) == 1
    assert not world.kube.written()


def test_another_manifest_of_that_name_is_refused(world: World, file: str, tmp_path: Path) -> None:
    assert world.run("run", "job", "-f", file).exit_code == 0
    other = world.run("run", "job", "-f", _file(tmp_path, _job(completions=7)))
    assert other.exit_code == 1
    assert other.stderr.splitlines()[-1] == (
        "taugrid: job default/train exists, made from another manifest; nothing was changed "
        "(give it another name, or first: taugrid cancel job/train -n default)"
    )


def test_a_job_that_somebody_else_made_is_not_taken_over(world: World, file: str) -> None:
    world.put(JOB, job())
    result = world.run("run", "job", "-f", file)
    assert result.exit_code == 1
    assert "exists, and taugrid did not make it" in result.stderr


def test_a_job_that_is_still_being_deleted_is_told(world: World, file: str) -> None:
    assert world.run("run", "job", "-f", file).exit_code == 0
    world.kube.patch(JOB, "train", {"metadata": {"finalizers": ["x/y"]}}, "default")
    world.kube.delete(JOB, "train", "default")
    result = world.run("run", "job", "-f", file)
    assert result.exit_code == 1
    assert "is still being deleted" in result.stderr


def test_a_lost_answer_is_safe_to_repeat(world: World, file: str) -> None:
    world.kube.fail("create", JOB, Unreachable("create Job: no answer"), when="after")
    lost = world.run("run", "job", "-f", file)
    assert lost.exit_code == 1
    assert "run the same command again, it makes no second one" in lost.stderr
    assert world.run("run", "job", "-f", file).stdout == "job/train unchanged\n"


def test_generate_name_makes_a_new_job_each_time(world: World, tmp_path: Path) -> None:
    obj = _job()
    obj["metadata"] = {"generateName": "train-", "labels": {names.QUEUE: "team-a"}}
    file = _file(tmp_path, obj)
    first, second = (world.run("run", "job", "-f", file, "-o", "name").stdout for _ in range(2))
    assert first.startswith("job/train-")
    assert first != second


def test_standard_input_and_a_queue_by_flag(world: World) -> None:
    obj = _job()
    del obj["metadata"]["labels"]
    result = world.run("run", "job", "-f", "-", "--queue", "q", "-n", "team-b",
                       stdin=yaml.safe_dump(obj))  # fmt: skip
    assert result.exit_code == 0, result.output
    (made,) = world.kube.objects(JOB)
    assert made["metadata"]["labels"] == {names.QUEUE: "q"}
    assert made["metadata"]["namespace"] == "team-b"


def test_a_rayjob_with_what_it_brings_along(world: World, tmp_path: Path) -> None:
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"},
            "data": {"train.py": "print(1)"}}  # fmt: skip
    file = _file(tmp_path, code, _ray())
    for said in ("created", "unchanged"):
        result = world.run("run", "ray", "-f", file)
        assert (result.exit_code, result.stdout) == (0, f"rayjob/train {said}\n"), result.output
    assert len(world.kube.objects(RAY_JOB)) == 1
    (found,) = world.kube.objects(CONFIG_MAP)
    assert found["data"] == {"train.py": "print(1)"}


def _without_queue() -> Obj:
    obj = _job()
    del obj["metadata"]["labels"]
    return obj


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


@pytest.mark.parametrize(
    ("objects", "args", "says"),
    [
        pytest.param([_job(parallelism=-1)], (), "spec.parallelism", id="a field is wrong"),
        pytest.param([_job(template=None)], (), "template", id="a field is missing"),
        pytest.param([_without_queue()], (), "names no queue", id="no queue"),
        pytest.param([_job()], ("--queue", "b"), "leave one out", id="two queues"),
        pytest.param([_ray()], (), "holds rayjob train, no Job", id="the other kind"),
        pytest.param([_job(), _job()], (), "holds 2 jobs", id="two jobs"),
        pytest.param([_job(), POD], (), "pod p is no job", id="a stranger"),
        pytest.param([], (), "holds no Job", id="an empty file"),
        pytest.param(
            [{**_job(), "metadata": {**_job()["metadata"], "namespace": "team-b"}}],
            ("-n", "default"), "all must be the same", id="two namespaces",
        ),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_refused_in_one_line_and_asks_nobody(
    world: World, tmp_path: Path, objects: list[Obj], args: tuple[str, ...], says: str
) -> None:
    result = world.run("run", "job", "-f", _file(tmp_path, *objects), *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("taugrid: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert not world.kube.calls


@pytest.mark.parametrize(
    "text",
    [
        b"a: [1, 2",
        b"- 1\n- 2",
        b"\xff\xfe\x00",
        b"kind: Job",
        b"",
        b"a: &x [*x]",
        b"kind: \x1b]0;pwned\x07",
    ],
    ids=["yaml", "list", "bytes", "no version", "empty", "a circle", "escapes"],
)
def test_what_is_no_manifest_is_refused_in_one_line(
    world: World, tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text)
    result = world.run("run", "job", "-f", str(path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert not {"\x1b", "\x07"} & set(result.stderr)


def test_a_file_that_cannot_be_read(world: World, tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path):
        result = world.run("run", "job", "-f", str(path))
        assert result.exit_code == 2
        assert result.stderr.startswith("taugrid: cannot read ")


def test_client_dry_run_asks_nobody_and_prints_only_the_object(world: World, file: str) -> None:
    result = world.run("run", "job", "-f", file, "--dry-run", "client")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["spec"]["suspend"] is True
    assert "namespace" not in yaml.safe_load(result.stdout)["metadata"]
    assert not world.kube.calls
    as_json = world.run("run", "job", "-f", file, "--dry-run", "client", "-o", "json")
    assert json.loads(as_json.stdout)["kind"] == "Job"


def test_server_dry_run_makes_nothing(world: World, file: str) -> None:
    result = world.run("run", "job", "-f", file, "--dry-run", "server")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["metadata"]["uid"]
    assert not world.kube.objects(JOB)


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("create Job default/train: no right (HTTP 403)"),
        ApiError('strict decoding error: unknown field "spec.x"', status=400),
        Conflict("apply: conflict"),
    ],
)
def test_what_the_server_refuses_is_one_line(world: World, file: str, error: ApiError) -> None:
    refuse(world, "create", JOB, error)
    result = world.run("run", "job", "-f", file)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"taugrid: {error.message}"


# run --wait


def _goes_on(world: World) -> None:
    """Kueue, the controllers and the kubelet, one step at each sleep."""
    uid = {"uid": ""}

    def owner() -> Obj:
        (found,) = world.kube.objects(JOB)
        uid["uid"] = found["metadata"]["uid"]
        return found

    def queued() -> None:
        told = {"QuotaReserved": ("False", "Pending", "no quota", 5.0)}
        world.put(WORKLOAD, workload(owner(), told=told))

    def runs() -> None:
        told = {"QuotaReserved": "True", "Admitted": "True"}
        world.put(WORKLOAD, workload(owner(), told=told))
        body = {"spec": {"suspend": False}}
        world.kube.patch(JOB, "train", body, "default")
        world.kube.patch(JOB, "train", {"status": {"ready": 3}}, "default", sub="status")

    def done() -> None:
        ended = job(status={"succeeded": 3}, ended={"Complete": "True"})["status"]
        world.kube.patch(JOB, "train", {"status": ended}, "default", sub="status")

    world.then(queued, runs, done)


def test_run_wait_tells_one_line_for_each_change(world: World, file: str) -> None:
    _goes_on(world)
    result = world.run("run", "job", "-f", file, "--wait")
    assert result.exit_code == 0, result.output
    assert result.stdout == "job default/train: Succeeded: all of it succeeded (3 pods)\n"
    lines = [
        line.split(None, 2)[1:]
        for line in result.stderr.splitlines()
        if not line.startswith(("asks for", "note: "))
    ]
    assert lines == [
        ["Queued", "waits for Kueue to take notice of it"],
        ["Queued", 'waits for quota in queue "team-a": no quota'],
        ["Running", "0 pods ready"],
        ["Finished", "all of it succeeded (3 pods)"],
    ]


def test_run_wait_as_json_is_one_object(world: World, file: str) -> None:
    _goes_on(world)
    result = world.run("run", "job", "-f", file, "--wait", "-o", "json")
    assert json.loads(result.stdout)["outcome"] == "Succeeded"


def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(world: World, file: str) -> None:
    world.then(interrupted)
    result = world.run("run", "job", "-f", file, "--wait", "--context", "my cluster")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == (
        "taugrid: detached; job default/train is untouched and goes on; come back with: "
        "taugrid wait job/train -n default --context 'my cluster'"
    )
    assert [w.verb for w in world.kube.written()] == ["create"]


def test_a_timeout_without_wait_is_a_usage_error(world: World, file: str) -> None:
    assert world.run("run", "job", "-f", file, "--timeout", "9s").exit_code == 2
    assert not world.kube.calls


def test_a_finished_job_of_the_same_file_keeps_its_verdict(world: World, file: str) -> None:
    assert world.run("run", "job", "-f", file).exit_code == 0
    ended = job(ended={"Failed": ("True", "BackoffLimitExceeded", "", 9.0)})["status"]
    world.kube.patch(JOB, "train", {"status": ended}, "default", sub="status")
    again = world.run("run", "job", "-f", file, "--wait")
    assert again.exit_code == 125
    assert "BackoffLimitExceeded" in again.stderr


def test_manifest_helper_and_pod_builder_agree_with_the_reader(
    world: World, tmp_path: Path
) -> None:
    """The builders' objects, written as a user would, pass the same door."""
    path = tmp_path / "b.yaml"
    path.write_text(manifest(job()))
    assert world.run("run", "job", "-f", str(path)).exit_code == 0
    assert pod()["kind"] == "Pod"
    assert ray_job()["kind"] == "RayJob"
