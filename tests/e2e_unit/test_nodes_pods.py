"""A pod's life on a process node, as pure functions: what starts, restarts, stops, and what shows.

A small stage plays containers through `lifecycle`: each call of `run` performs what is due, and
`end` lets a container end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from e2e.nodes import lifecycle
from e2e.nodes.lifecycle import Backoff, Decision, Ended, Record
from e2e.nodes.status import Facts, pod_status, records_from, waits
from taugrid_ray.kinds.resource import Obj


def container(name: str, **more: Any) -> Obj:
    return {"name": name, "image": "ray", "command": ["true"], **more}


def pod(*mains: Obj, policy: str = "Always", inits: tuple[Obj, ...] = ()) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": list(inits),
            "containers": list(mains or (container("main"),)),
        },
    }


class Stage:
    def __init__(self, obj: Obj) -> None:
        self.pod, self.line = obj, lifecycle.plans(obj)
        self.records: dict[str, Record] = {}
        self.now_s = 1000.0
        self.ending = False

    def run(self) -> tuple[str, ...]:
        """Perform what is due; the names of those started."""
        decision = self.decide()
        for name in decision.start:
            plan = next(each for each in self.line if each.name == name)
            record = self.records.get(name, Record())
            self.records[name] = lifecycle.after_start(record, plan, self.now_s)
        for name in decision.stop:
            self.records[name] = replace(self.records[name], stopping=True)
        return decision.start

    def decide(self) -> Decision:
        return lifecycle.decide(self.line, self.records, self.now_s, ending=self.ending)

    def end(self, name: str, code: int, after_s: float = 1.0) -> None:
        began_s = self.records[name].running_since_s
        assert began_s is not None
        self.now_s = max(self.now_s, began_s + after_s)
        ended = Ended(code, began_s, self.now_s)
        self.records[name] = lifecycle.after_end(self.records[name], ended, Backoff())

    def status(self) -> Obj:
        facts = Facts(self.pod, self.line, self.records, pod_ip="10.0.0.2", ending=self.ending)
        return pod_status(facts, self.now_s)

    def state(self, name: str = "main") -> Obj:
        status = self.status()
        everyone = (*status.get("initContainerStatuses", ()), *status["containerStatuses"])
        shown: Obj = next(each for each in everyone if each["name"] == name)
        return shown

    def condition(self, kind: str) -> str:
        conditions = self.status()["conditions"]
        return str(next(each["status"] for each in conditions if each["type"] == kind))


@pytest.mark.parametrize(
    ("policy", "code", "again", "phase"),
    [
        ("Never", 0, False, "Succeeded"),
        ("Never", 3, False, "Failed"),
        ("OnFailure", 0, False, "Succeeded"),
        ("OnFailure", 3, True, "Running"),
        ("Always", 0, True, "Running"),
        ("Always", 3, True, "Running"),
    ],
)
def test_the_restart_policy_is_kept(policy: str, code: int, again: bool, phase: str) -> None:
    stage = Stage(pod(policy=policy))
    assert stage.run() == ("main",)
    assert stage.run() == ()
    stage.end("main", code)
    assert stage.status()["phase"] == phase
    assert stage.run() == (("main",) if again else ())
    assert stage.state()["restartCount"] == int(again)
    shown = stage.state()["lastState" if again else "state"]["terminated"]
    assert shown["exitCode"] == code
    assert shown["reason"] == ("Error" if code else "Completed")


def test_restarts_in_a_row_wait_longer_and_longer() -> None:
    stage = Stage(pod())
    stage.run()
    stage.end("main", 1)
    assert stage.run() == ("main",), "the first restart is immediate"
    waited = []
    for _ in range(7):
        stage.end("main", 1)
        wake_at_s = stage.decide().wake_at_s
        assert wake_at_s is not None
        waited.append(wake_at_s - stage.now_s)
        assert stage.state()["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        stage.now_s = wake_at_s
        assert stage.run() == ("main",)
    assert waited == [10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_makes_the_next_restart_immediate() -> None:
    stage = Stage(pod())
    for _ in range(3):
        stage.run()
        stage.end("main", 1, after_s=601)
        assert stage.decide().start == ("main",)


def test_init_containers_run_one_after_the_other_and_before_the_others() -> None:
    stage = Stage(pod(inits=(container("one"), container("two"))))
    assert stage.run() == ("one",)
    assert stage.status()["phase"] == "Pending"
    assert stage.condition("Initialized") == "False"
    stage.end("one", 0)
    assert stage.run() == ("two",)
    stage.end("two", 0)
    assert stage.run() == ("main",)
    assert stage.status()["phase"] == "Running"
    assert stage.condition("Initialized") == "True"
    assert stage.condition("Ready") == "True"


def test_a_failed_init_container_is_tried_again_unless_the_pod_says_never() -> None:
    often = Stage(pod(inits=(container("one"),)))
    never = Stage(pod(inits=(container("one"),), policy="Never"))
    for stage in (often, never):
        stage.run()
        stage.end("one", 1)
    assert often.run() == ("one",)
    assert never.run() == ()
    assert never.status()["phase"] == "Failed"
    assert never.decide().over


def test_a_sidecar_starts_first_and_is_stopped_last() -> None:
    stage = Stage(pod(policy="Never", inits=(container("side", restartPolicy="Always"),)))
    assert stage.run() == ("side",)
    assert stage.run() == ("main",)
    stage.end("main", 0)
    assert stage.decide().stop == ("side",)
    assert stage.status()["phase"] == "Running"
    stage.run()
    assert stage.decide().stop == (), "it was told already"
    stage.end("side", 143)
    assert stage.decide().over
    assert stage.status()["phase"] == "Succeeded"


def test_a_pod_that_is_deleted_stops_everything_and_starts_nothing() -> None:
    stage = Stage(pod(container("a"), container("b")))
    assert stage.run() == ("a", "b")
    stage.ending = True
    assert set(stage.decide().stop) == {"a", "b"}
    stage.run()
    stage.end("a", 143)
    assert not stage.decide().over
    stage.end("b", 0)
    assert stage.decide() == Decision(over=True)
    assert stage.status()["phase"] == "Failed"


def test_readiness_waits_for_its_probe() -> None:
    stage = Stage(pod(container("main", readinessProbe={"exec": {"command": ["true"]}})))
    stage.run()
    assert stage.condition("Ready") == "False"
    message = next(c["message"] for c in stage.status()["conditions"] if c["type"] == "Ready")
    assert message == "containers with unready status: [main]"
    stage.records["main"] = replace(stage.records["main"], ready=True)
    assert stage.condition("Ready") == "True"


def test_a_condition_keeps_its_time_until_it_flips() -> None:
    stage = Stage(pod())
    stage.run()
    first = stage.status()
    stage.pod = {**stage.pod, "status": first}
    stage.now_s += 60
    assert stage.status()["conditions"] == first["conditions"]


def test_a_container_that_cannot_be_configured_says_why_and_is_tried_again() -> None:
    stage = Stage(pod())
    record = lifecycle.after_refusal(
        Record(), "CreateContainerConfigError", 'secret "s" not found', stage.now_s, Backoff()
    )
    stage.records["main"] = record
    assert stage.state()["state"] == {
        "waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}
    }
    assert stage.status()["phase"] == "Pending"
    assert stage.decide().wake_at_s == stage.now_s + 10


def test_an_agent_that_starts_again_knows_what_its_pods_went_through() -> None:
    stage = Stage(pod())
    stage.run()
    stage.end("main", 1)
    stage.run()
    found = records_from({**stage.pod, "status": stage.status()})
    assert found["main"].attempts == 2
    assert found["main"].is_running
    assert found["main"].last is not None
    assert found["main"].last.exit_code == 1
    lost = lifecycle.after_lost_node(found["main"], stage.now_s)
    assert lost.last is not None
    assert lost.last.exit_code == lifecycle.LOST


def test_the_previous_log_is_another_one_while_a_container_waits() -> None:
    stage = Stage(pod())
    for _ in range(2):
        stage.run()
        stage.end("main", 1)
    assert waits({**stage.pod, "status": stage.status()}, "main")
    stage.now_s += 60
    stage.run()
    assert not waits({**stage.pod, "status": stage.status()}, "main")
