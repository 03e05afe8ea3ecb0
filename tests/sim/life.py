"""One life of a cluster, from its seed: what exists, what goes wrong, and what must hold.

It ends with a time of peace: faults stop, pools heal, and all that can still happen happens. Then
every gang must have ended or have given up, nothing of ours may be left, and a controller that
starts anew must find nothing to do. The rules of the design are judged on every change that the
API server kept, by the same judges as the end-to-end scenarios (`e2e.scenarios.rules`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.pools.settings import Settings
from e2e.scenarios.record import Seen
from e2e.scenarios.rules import Account, check_all
from taugrid_ray import names
from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.errors import Invalid
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.api import Change
from taugrid_ray.kube.delta import key_of
from taugrid_ray.memory import Pause, parse_memory
from tests.fake_kube import Call, FakeKube, ManualClock
from tests.fake_kube.clock import START_S
from tests.sim.controller import Controller, FlakyApi, Killed
from tests.sim.kueue import CHECK, JOB_KINDS, OTHER, Kueue, has_ended, says
from tests.sim.machines import Autoscaler, Machines
from tests.sim.manners import Story, judge

PEACE_S = 300.0
"""When the faults stop."""
END_S = 4000.0
STEPS_MAX = 4000
OURS = (kinds.PROVISIONING_REQUEST, kinds.POD_TEMPLATE)
RECORDED = (
    kinds.WORKLOAD,
    kinds.PROVISIONING_REQUEST,
    kinds.POD_TEMPLATE,
    kinds.POD,
    kinds.JOB,
    kinds.RAY_JOB,
    kinds.NODE,
)
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@dataclass
class Life:
    """dies_at: kill the controller at this half-write of its life, and let nothing else go wrong
    but what the pools were set to do.
    """

    seed: int
    dies_at: int | None = None
    story: list[str] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        self.clock = ManualClock(START_S)
        self.kube = FakeKube(self.clock)
        self.policy = _policy(rng)
        self.on_flavors = rng.random() < 0.3
        self.quota = rng.randint(8, 14)
        self.kueue = Kueue(
            self.kube,
            quota=self.quota,
            on_flavors=self.on_flavors,
            other_check_s=rng.choice((None, None, None, 2.0, 30.0, 90.0)),
            ready_limit_s=rng.choice((None, 300.0)),
        )
        self.autoscaler = Autoscaler(self.kube, _settings(rng))
        self.machines = Machines(self.kube)
        self.chance = rng.choice((0.0, 0.0, 0.02, 0.06)) if self.dies_at is None else 0.0
        self.down: list[tuple[float, float]] = []
        self.controller: Controller | None = None
        self.api: FlakyApi | None = None
        self._starts_at_s = 0.0
        self._late = False
        self._refused: Resource | None = None
        self.kube.on_call = self._webhook
        self._set_up()
        self._events = self._plan()

    @property
    def at_s(self) -> float:
        return self.clock.monotonic_s()

    def tell(self, what: str) -> None:
        self.story.append(f"{self.at_s:8.1f}  {what}")

    # What exists, and what will go wrong

    def _set_up(self) -> None:
        create = self.kube.create
        parameters = {"apiGroup": "taugrid.io", "kind": "CapacityPolicy", "name": "policy"}
        check = {"controllerName": names.CONTROLLER, "parameters": parameters}
        strategy: Obj = {"name": CHECK}
        if self.on_flavors:
            strategy["onFlavors"] = ["cpu", "gpu"]
        create(kinds.ADMISSION_CHECK, _obj(kinds.ADMISSION_CHECK, CHECK, spec=check))
        other = _obj(kinds.ADMISSION_CHECK, OTHER, spec={"controllerName": "example.com/other"})
        create(kinds.ADMISSION_CHECK, other)
        queue = {"admissionChecksStrategy": {"admissionChecks": [strategy]}}
        create(kinds.CLUSTER_QUEUE, _obj(kinds.CLUSTER_QUEUE, "queue", spec=queue))
        spec = self.policy.model_dump(by_alias=True, mode="json")
        create(kinds.CAPACITY_POLICY, _obj(kinds.CAPACITY_POLICY, "policy", spec=spec))
        for name in ("static", "cpu", "gpu"):
            labels = {"nodeLabels": {"pool": name}}
            create(kinds.RESOURCE_FLAVOR, _obj(kinds.RESOURCE_FLAVOR, name, spec=labels))
        static = _obj(kinds.NODE, "static", labels={"pool": "static"})
        ready = {"type": "Ready", "status": "True"}
        static["status"] = {"conditions": [ready], "allocatable": {"cpu": "64"}}
        create(kinds.NODE, static)

    def _plan(self) -> list[tuple[float, str, Callable[[], None]]]:
        rng = self.rng
        plan: list[tuple[float, str, Callable[[], None]]] = []

        def at(latest_s: float, what: str, do: Callable[[], None]) -> None:
            plan.append((rng.uniform(0.0, latest_s), what, do))

        jobs = [_job(rng, f"j{i}", with_head=self.on_flavors) for i in range(rng.randint(1, 3))]
        for kind, job in jobs:
            latest_s = 60.0 if self.dies_at is None else 5.0
            at(
                latest_s,
                f"{job['metadata']['name']} comes",
                lambda k=kind, j=job: self._submit(k, j),
            )
        if self.dies_at is not None:
            plan.append((0.0, "peace", self._make_peace))
            return sorted(plan, key=lambda event: event[0])
        plan.append((PEACE_S, "peace", self._make_peace))
        trouble = (
            ("a user cancels", self._cancel),
            ("a user deactivates", self._deactivate),
            ("a user activates", self._activate),
            ("a node dies", lambda: self.machines.lose_node(rng)),
            ("the quota is cut", self._cut_quota),
            ("the quota is back", self._restore_quota),
            ("etcd is compacted", self.kube.compact),
            ("somebody deletes a request", lambda: self._delete_one(kinds.PROVISIONING_REQUEST)),
            ("somebody deletes a template", lambda: self._delete_one(kinds.POD_TEMPLATE)),
            ("a webhook refuses our objects", lambda: self._refuse(kinds.PROVISIONING_REQUEST)),
            ("a webhook refuses our templates", lambda: self._refuse(kinds.POD_TEMPLATE)),
            ("the webhook is mended", lambda: self._refuse(None)),
        )
        for what, do in rng.sample(trouble, rng.randint(0, 4)):
            at(PEACE_S, what, do)
        for _ in range(rng.choice((0, 0, 1, 2))):
            at(PEACE_S, "the controller will die", self._doom)
        for kind in rng.sample((kinds.WORKLOAD, kinds.POD, *OURS), rng.randint(0, 2)):
            at(30.0, f"{kind.plural} are seen late", lambda k=kind: self._lag(k))
        return sorted(plan, key=lambda event: event[0])

    def _submit(self, kind: Resource, job: Obj) -> None:
        self.kube.create(kind, job, "team")

    def _cancel(self) -> None:
        jobs = [(kind, job) for kind in JOB_KINDS for job in self.kube.peek(kind)]
        if jobs:
            kind, job = self.rng.choice(jobs)
            self.kube.delete(kind, job["metadata"]["name"], "team")

    def _deactivate(self) -> None:
        self._set_active(active=False)

    def _activate(self) -> None:
        self._set_active(active=True)

    def _set_active(self, *, active: bool) -> None:
        found = [w for w in self.kube.peek(kinds.WORKLOAD) if w["spec"]["active"] is not active]
        if found:
            name = self.rng.choice(found)["metadata"]["name"]
            self.kube.patch(kinds.WORKLOAD, name, {"spec": {"active": active}}, "team")

    def _cut_quota(self) -> None:
        self.kueue.quota = 2

    def _restore_quota(self) -> None:
        self.kueue.quota = self.quota

    def _webhook(self, call: Call) -> None:
        if call.verb == "create" and call.kind == self._refused:
            raise Invalid("admission webhook denied the request: not today")

    def _delete_one(self, kind: Resource) -> None:
        found = self.kube.peek(kind)
        if found:
            self.kube.delete(kind, self.rng.choice(found)["metadata"]["name"], "team")

    def _refuse(self, kind: Resource | None) -> None:
        self._refused = kind

    def _lag(self, kind: Resource) -> None:
        self._late = True
        self.kube.history.lag(kind, self.rng.choice((0.3, 1.0, 2.0)))

    def _doom(self) -> None:
        if self.api is not None:
            self.api.dies_in = self.rng.randint(0, 8)

    def _make_peace(self) -> None:
        self.chance = 0.0
        self._restore_quota()
        if self.dies_at is not None:
            return
        healthy = Settings.model_validate(_pools(_pool("cpu", "4"), _pool("gpu", "8", gpus="8")))
        self.autoscaler.settings = healthy
        self._late, self._refused = False, None
        for kind in RECORDED:
            self.kube.history.lag(kind, 0.0)
        if self.api is not None and self.dies_at is None:
            self.api.dies_in, self.api.chance = None, 0.0

    # The life itself

    def run(self) -> None:
        """Raises AssertionError with the whole story where anything is not as it must be."""
        try:
            self._run()
            self._judge()
        except AssertionError as wrong:
            told = "\n".join(self.story[-400:])
            raise AssertionError(
                f"seed {self.seed}: {wrong}\nits story: python -m tests.sim {self.seed}\n{told}"
            ) from wrong

    def _run(self) -> None:
        settled_at_s: float | None = None
        for _ in range(STEPS_MAX):
            before = self.kube.history.version
            while self._events and self._events[0][0] <= self.at_s:
                _, what, do = self._events.pop(0)
                self.tell(what)
                do()
            steps = [self.kueue.step, self.autoscaler.step, self.machines.step, self._step_ours]
            self.rng.shuffle(steps)
            for step in steps:
                step()
            if self._is_settled():
                if settled_at_s is None:
                    settled_at_s = self.at_s
                if self.at_s - settled_at_s > 70.0:
                    return
            else:
                settled_at_s = None
            assert self.at_s < END_S, f"not settled: {self._states()}"
            self.clock.advance(self._pause_s(quiet=self.kube.history.version == before))
        raise AssertionError(f"not settled after {STEPS_MAX} steps: {self._states()}")

    def _pause_s(self, *, quiet: bool) -> float:
        if not quiet:
            return self.rng.choice((0.2, 0.5, 1.0, 2.0))
        waits = [
            20.0 if not self._late else 2.0,
            self.controller.next_due_s() if self.controller else self._starts_at_s - self.at_s,
            self.machines.next_due_s(),
            self.autoscaler.due_s - self.clock.now_s(),
        ]
        if self._events:
            waits.append(self._events[0][0] - self.at_s)
        return max(0.2, min(waits))

    def _step_ours(self) -> None:
        if self.controller is None:
            if self.at_s < self._starts_at_s:
                return
            self.api = FlakyApi(self.kube, self.rng, self.chance)
            if self.kills == 0:
                self.api.dies_in = self.dies_at
            self.controller = Controller(self.api, self.clock, self.rng, meanwhile=self._meanwhile)
        try:
            self.controller.step()
        except Killed:
            self.kills += 1
            self.controller = None
            self._starts_at_s = self.at_s + self.rng.choice((0.0, 3.0, 20.0))
            self.down.append((self.clock.now_s(), START_S + self._starts_at_s))
            self.tell(f"the controller is killed until {self._starts_at_s:.1f}")
            return
        assert not self.controller.bugs, "an exception inside the controller"

    def _meanwhile(self) -> None:
        """Between two writes of ours the world does not stand still."""
        if self.rng.random() < 0.1:
            self.rng.choice((self.kueue.step, self.machines.step))()

    # What must hold

    def _is_settled(self) -> bool:
        if self._events or self.controller is None:
            return False
        jobs = [job for kind in JOB_KINDS for job in self.kube.peek(kind)]
        workloads = {
            w["metadata"]["ownerReferences"][0]["uid"]: w for w in self.kube.peek(kinds.WORKLOAD)
        }
        return all(has_ended(job) or _rests(workloads.get(job["metadata"]["uid"])) for job in jobs)

    def _states(self) -> str:
        told = []
        for workload in self.kube.peek(kinds.WORKLOAD):
            meta, status = workload["metadata"], workload.get("status", {})
            true = [c["type"] for c in status.get("conditions", ()) if c["status"] == "True"]
            checks = [(c["state"], c["message"]) for c in status.get("admissionChecks", ())]
            active = workload["spec"]["active"]
            told.append(f"{meta['name']} {active=} {true} {checks} {meta.get('annotations')}")
        return "; ".join(told)

    def _judge(self) -> None:
        account = Account(
            changes=tuple(changes(self.kube)),
            ended_at_s=self.clock.now_s(),
            check=CHECK,
            provision_s=self._longest_provision_s(),
            down=tuple(self.down),
        )
        for finding in check_all(account):
            assert finding.held, f"{finding.rule}, {finding.says}: {finding.breaches}"
        story = Story(account.changes, self.policy, account.ended_at_s, account.excused_s)
        breaches = judge(story)
        assert not breaches, breaches
        left = [o["metadata"]["name"] for kind in OURS for o in self.kube.peek(kind)]
        assert not left, f"left behind: {left}"
        self._judge_restart()

    def _longest_provision_s(self) -> float:
        """A job may ask for more than the policy's deadline, within its maximum."""
        asks = any(
            names.PROVISION_DEADLINE in (past.after["metadata"].get("annotations") or {})
            for kind in JOB_KINDS
            for past in self.kube.history.of(kind)
        )
        limits = self.policy.deadlines
        return limits.max_provision if asks else limits.provision

    def _judge_restart(self) -> None:
        """R9: acting again, here by a process that knows nothing, changes nothing."""
        mark = self.kube.history.version
        again = Controller(FlakyApi(self.kube, self.rng, 0.0), self.clock, self.rng)
        again.step()
        written = [w for w in self.kube.writes if w.resource_version > mark]
        assert not written, f"a fresh controller wrote {[(w.verb, w.kind) for w in written]}"


def changes(kube: FakeKube) -> list[Seen]:
    """What the API server kept, in order, as the end-to-end record has it."""
    past = [(entry, kind) for kind in RECORDED for entry in kube.history.of(kind)]
    past.sort(key=lambda pair: pair[0].version)
    return [
        Seen(
            entry.at_s,
            kind,
            key_of(entry.after),
            entry.before,
            None if entry.change is Change.DELETED else entry.after,
        )
        for entry, kind in past
    ]


def _rests(workload: Obj | None) -> bool:
    """Inactive for good: gave up, was refused, or a user's own pause."""
    if workload is None or workload["spec"]["active"] is not False:
        return False
    memory = parse_memory((workload["metadata"].get("annotations") or {}).get(names.MEMORY))
    holds = says(workload, wl.QUOTA_RESERVED)
    return memory.pause is not Pause.PARKED and not holds


def _obj(kind: Resource, name: str, *, spec: Obj | None = None, **meta: Any) -> Obj:
    found: Obj = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **meta},
    }
    if spec is not None:
        found["spec"] = spec
    return found


def _policy(rng: random.Random) -> CapacityPolicySpec:
    steps = [{"provisioningClassName": CLASS, "attempts": rng.randint(1, 3)}]
    if rng.random() < 0.3:
        name = rng.choice((CLASS, "not-served.example.com"))
        steps.append({"provisioningClassName": name, "attempts": 1})
    return CapacityPolicySpec.model_validate(
        {
            "managedResources": rng.choice(([], ["cpu"], ["nvidia.com/gpu"])),
            "steps": steps,
            "deadlines": {
                "provision": rng.choice((30, 60, 90)),
                "maxProvision": 90,
                "nodes": rng.choice((40, 80, 150)),
                "accelerators": 30,
                "pods": 40,
            },
            "backoff": {"baseSeconds": rng.choice((5, 20)), "maxSeconds": 40},
            "onGiveUp": rng.choice(("Park", "Park", "Reject")),
            "readyWhen": rng.choice(("Booked", "Booked", "NodesReady")),
        }
    )


def _settings(rng: random.Random) -> Settings:
    def pool(name: str, cpu: str, gpus: str = "") -> Obj:
        found = _pool(name, cpu, gpus=gpus)
        found["bootSeconds"] = rng.choice((0, 0, 8, 30))
        found["readySeconds"] = rng.choice((0, 0, 8, 30, "never"))
        found["max"] = rng.choice((1, 3, 20))
        if rng.random() < 0.2:
            found["stockOut"] = {"afterNodes": rng.randint(0, 1), "partial": rng.random() < 0.5}
        if gpus:
            found["withoutAccelerators"] = rng.choice((None, None, 10, "never"))
        return found

    found = _pools(pool("cpu", "4"), pool("gpu", "8", "8"))
    habits = found["autoscaler"]
    habits["bookingSeconds"] = rng.choice((20, 50, 600))
    habits["bookingConsumed"] = rng.random() < 0.5
    habits["answerDelaySeconds"] = rng.choice((0, 0, 15))
    if rng.random() < 0.4:
        answer = rng.choice(("Silent", "NotFound", "Failed", "BookingExpired", "CapacityRevoked"))
        match = {"labels": {names.ATTEMPT: "1"}}
        habits["brokenFor"] = [
            {"match": match, "answer": answer, "afterSeconds": rng.choice((0, 10, 40))}
        ]
    return Settings.model_validate(found)


def _pools(*pools: Obj) -> Obj:
    return {
        "pools": list(pools),
        "autoscaler": {
            "initialBackoffSeconds": 10,
            "maxBackoffSeconds": 20,
            "initialPoolBackoffSeconds": 20,
            "maxPoolBackoffSeconds": 40,
            "maxNodeProvisionSeconds": 60,
            "scaleDownUnneededSeconds": 40,
            "scaleDownUnreadySeconds": 60,
            "scaleDownDelayAfterAddSeconds": 20,
        },
    }


def _pool(name: str, cpu: str, *, gpus: str = "") -> Obj:
    allocatable = {"cpu": cpu, **({"nvidia.com/gpu": gpus} if gpus else {})}
    return {"name": name, "max": 20, "node": {"labels": {"pool": name}, "allocatable": allocatable}}


def _job(rng: random.Random, name: str, *, with_head: bool) -> tuple[Resource, Obj]:
    kind = rng.choice(JOB_KINDS)
    sets = []
    if with_head and rng.random() < 0.7:
        sets.append(_set("head", 1, "static", {"cpu": "1"}))
    for pool in rng.choice((("cpu",), ("cpu",), ("gpu",), ("cpu", "gpu"))):
        asked = {"cpu": "2"} if pool == "cpu" else {"cpu": "1", "nvidia.com/gpu": "4"}
        sets.append(_set(pool, rng.randint(1, 3), pool, asked))
    notes = {}
    if not with_head and rng.random() < 0.15:
        notes[names.ELASTIC] = "true"
    if rng.random() < 0.2:
        notes[names.PROVISION_DEADLINE] = rng.choice(("20", "90", "5000", "soon"))
    job = _obj(kind, name, labels={names.QUEUE: "queue"}, annotations=notes)
    job["spec"] = {
        "suspend": True,
        "priority": rng.randint(0, 1),
        "seconds": rng.choice((5, 30, 80)),
        "sets": sets,
    }
    return kind, job


def _set(name: str, count: int, flavor: str, asked: dict[str, str]) -> Obj:
    container = {"name": "main", "image": "x", "resources": {"requests": asked}}
    return {
        "name": name,
        "count": count,
        "flavor": flavor,
        "template": {"metadata": {}, "spec": {"containers": [container]}},
    }
