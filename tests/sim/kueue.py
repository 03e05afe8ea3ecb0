"""A stand-in for Kueue: Workloads, quota in pods, order, preemption, checks, eviction.

What it does and when is as measured on Kueue 0.19.2: an eviction stops the job first and frees the
quota once its pods are gone; checks limited by flavors exist only beside an admission; a check that
is Ready keeps its podSetUpdates; inactive means evicted and not queued.
"""

from __future__ import annotations

from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.meta import format_time, parse_time
from taugrid_ray.kinds.resource import JOB, POD, RAY_JOB, WORKLOAD, Obj, Resource
from taugrid_ray.kube.api import Patch
from tests.fake_kube import FakeKube

CHECK, OTHER = "capacity", "other"
JOB_KINDS = (JOB, RAY_JOB)


def says(obj: Obj, condition: str) -> bool:
    """Is the condition there and true?"""
    conditions = (obj.get("status") or {}).get("conditions", ())
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def has_ended(job: Obj) -> bool:
    deployment = (job.get("status") or {}).get("jobDeploymentStatus")
    return says(job, "Complete") or says(job, "Failed") or deployment in ("Complete", "Failed")


class Kueue:
    """quota: pods. on_flavors: is our check limited to flavors? other_check_s: how long another
    check takes after the reservation; None for no other check. ready_limit_s: waitForPodsReady.
    """

    def __init__(
        self,
        kube: FakeKube,
        *,
        quota: int,
        on_flavors: bool = False,
        other_check_s: float | None = None,
        ready_limit_s: float | None = None,
    ) -> None:
        self._kube = kube
        self.quota = quota
        self._on_flavors = on_flavors
        self._other_check_s = other_check_s
        self._ready_limit_s = ready_limit_s

    def step(self) -> None:
        jobs = {
            job["metadata"]["uid"]: (kind, job)
            for kind in JOB_KINDS
            for job in self._kube.peek(kind)
        }
        workloads = self._kube.peek(WORKLOAD)
        known = {w["metadata"]["ownerReferences"][0]["uid"] for w in workloads}
        for uid, (kind, job) in jobs.items():
            if uid not in known and not has_ended(job):
                self._make(kind, job)
        for workload in workloads:
            found = jobs.get(workload["metadata"]["ownerReferences"][0]["uid"])
            if found is not None:
                self._carry_on(workload, *found)
        self._reserve(jobs)

    # One Workload

    def _make(self, kind: Resource, job: Obj) -> None:
        meta, spec = job["metadata"], job["spec"]
        owner = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
        }
        self._kube.create(
            WORKLOAD,
            {
                "apiVersion": WORKLOAD.api_version,
                "kind": WORKLOAD.kind,
                "metadata": {
                    "name": f"{kind.kind.lower()}-{meta['name']}",
                    "annotations": meta.get("annotations", {}),
                    "ownerReferences": [owner],
                },
                "spec": {
                    "queueName": "queue",
                    "active": True,
                    "priority": spec["priority"],
                    "podSets": spec["sets"],
                },
            },
            meta["namespace"],
        )
        if not self._on_flavors:
            name = f"{kind.kind.lower()}-{meta['name']}"
            self._status(name, meta["namespace"], {"admissionChecks": self._fresh_checks()})

    def _fresh_checks(self) -> list[Obj]:
        now = format_time(self._kube.clock.now_s())
        listed = [CHECK] if self._other_check_s is None else [OTHER, CHECK]
        return [
            {"name": name, "state": "Pending", "message": "", "lastTransitionTime": now}
            for name in listed
        ]

    def _carry_on(self, workload: Obj, kind: Resource, job: Obj) -> None:
        if says(workload, wl.FINISHED):
            return
        if has_ended(job):
            self._say(workload, wl.FINISHED, True, "JobFinished")
            return
        states = {
            c["name"]: c["state"] for c in (workload.get("status") or {}).get("admissionChecks", ())
        }
        reserved = says(workload, wl.QUOTA_RESERVED)
        if says(workload, wl.EVICTED):
            if reserved:
                self._stop(workload, kind, job)
        elif not reserved:
            return
        elif workload["spec"].get("active") is False:
            self._evict(workload, "Deactivated")
        elif "Rejected" in states.values():
            body = {"spec": {"active": False}}
            self._patch(workload, body)
        elif "Retry" in states.values():
            self._evict(workload, "AdmissionCheck")
        elif not says(workload, wl.ADMITTED):
            self._other_check(workload)
            if states and all(state == "Ready" for state in states.values()):
                self._say(workload, wl.ADMITTED, True, "Admitted")
        elif job["spec"]["suspend"]:
            self._start(workload, kind, job)
        else:
            self._pods_ready(workload)

    def _other_check(self, workload: Obj) -> None:
        if self._other_check_s is None:
            return
        since_s = _since_s(workload, wl.QUOTA_RESERVED)
        if self._kube.clock.now_s() - since_s < self._other_check_s:
            return
        checks = workload["status"]["admissionChecks"]
        changed = [c | {"state": "Ready"} if c["name"] == OTHER else c for c in checks]
        if changed != checks:
            self._patch(workload, {"status": {"admissionChecks": changed}}, sub="status")

    def _start(self, workload: Obj, kind: Resource, job: Obj) -> None:
        """Put into the job's templates what checks and flavors add, and let it go."""
        sets = [self._with_updates(s, workload) for s in job["spec"]["sets"]]
        self._kube.patch(
            kind,
            job["metadata"]["name"],
            {"spec": {"suspend": False, "sets": sets}},
            job["metadata"]["namespace"],
        )

    def _with_updates(self, pod_set: Obj, workload: Obj) -> Obj:
        labels: dict[str, str] = {}
        notes: dict[str, str] = {}
        for check in workload["status"]["admissionChecks"]:
            for update in check.get("podSetUpdates", ()):
                if update["name"] == pod_set["name"]:
                    labels |= update.get("labels", {})
                    notes |= update.get("annotations", {})
        spec = {**pod_set["template"]["spec"], "nodeSelector": {"pool": pod_set["flavor"]}}
        meta = {"labels": labels, "annotations": notes}
        return {**pod_set, "template": {"metadata": meta, "spec": spec}}

    def _pods_ready(self, workload: Obj) -> None:
        pods = self._pods(workload)
        ready = [p for p in pods if p["status"].get("phase") in ("Running", "Succeeded")]
        total = sum(s["count"] for s in workload["spec"]["podSets"])
        all_ready = len(ready) >= total
        if all_ready != says(workload, wl.PODS_READY):
            self._say(workload, wl.PODS_READY, all_ready, "PodsReady")
        since_s = _since_s(workload, wl.ADMITTED)
        late_s = self._kube.clock.now_s() - since_s
        if self._ready_limit_s is not None and not all_ready and late_s > self._ready_limit_s:
            self._evict(workload, "PodsReadyTimeout")

    def _evict(self, workload: Obj, reason: str) -> None:
        self._say(workload, wl.EVICTED, True, reason)

    def _stop(self, workload: Obj, kind: Resource, job: Obj) -> None:
        """Suspend the job; the quota goes back once none of its pods is left."""
        if not job["spec"]["suspend"]:
            meta = job["metadata"]
            self._kube.patch(kind, meta["name"], {"spec": {"suspend": True}}, meta["namespace"])
            return
        if self._pods(workload):
            return
        now = format_time(self._kube.clock.now_s())
        conditions = [
            c
            if c["type"] not in (wl.QUOTA_RESERVED, wl.ADMITTED, wl.PODS_READY)
            else c | {"status": "False", "lastTransitionTime": now}
            for c in workload["status"]["conditions"]
        ]
        checks = [] if self._on_flavors else self._fresh_checks()
        status = {"admission": None, "conditions": conditions, "admissionChecks": checks}
        self._patch(workload, {"status": status}, sub="status")

    def _pods(self, workload: Obj) -> list[Obj]:
        job_uid = workload["metadata"]["ownerReferences"][0]["uid"]
        return [
            pod
            for pod in self._kube.peek(POD)
            if pod["metadata"]["ownerReferences"][0]["uid"] == job_uid
        ]

    # The queue

    def _reserve(self, jobs: dict[str, tuple[Resource, Obj]]) -> None:
        workloads = [w for w in self._kube.peek(WORKLOAD) if self._is_live(w, jobs)]
        holding = [w for w in workloads if self._holds(w)]
        free = self.quota - sum(map(_pods_of, holding))
        if free < 0 and holding:
            self._preempt(min(holding, key=_rank))
            return
        waiting = [w for w in workloads if not self._holds(w) and w["spec"]["active"] is not False]
        for workload in sorted(waiting, key=_rank, reverse=True):
            if _pods_of(workload) <= free:
                free -= _pods_of(workload)
                self._give_quota(workload)
                continue
            lower = [w for w in holding if w["spec"]["priority"] < workload["spec"]["priority"]]
            if lower and _pods_of(workload) <= free + sum(map(_pods_of, lower)):
                self._preempt(min(lower, key=_rank))
            return

    def _is_live(self, workload: Obj, jobs: dict[str, tuple[Resource, Obj]]) -> bool:
        found = jobs.get(workload["metadata"]["ownerReferences"][0]["uid"])
        finished = says(workload, wl.FINISHED)
        return found is not None and not finished and not has_ended(found[1])

    def _holds(self, workload: Obj) -> bool:
        return says(workload, wl.QUOTA_RESERVED)

    def _preempt(self, workload: Obj) -> None:
        if not says(workload, wl.EVICTED):
            self._evict(workload, "Preempted")

    def _give_quota(self, workload: Obj) -> None:
        pod_sets = workload["spec"]["podSets"]
        assigned = [
            {"name": s["name"], "count": s["count"], "flavors": {"cpu": s["flavor"]}}
            for s in pod_sets
        ]
        status: Obj = {
            "admission": {"clusterQueue": "queue", "podSetAssignments": assigned},
            "conditions": self._conditions(
                workload,
                (wl.QUOTA_RESERVED, True, "QuotaReserved"),
                (wl.EVICTED, False, "Reserved"),
            ),
        }
        if self._on_flavors:
            status["admissionChecks"] = self._fresh_checks()
        self._patch(workload, {"status": status}, sub="status")

    # Writing

    def _say(self, workload: Obj, type_: str, is_true_now: bool, reason: str) -> None:
        conditions = self._conditions(workload, (type_, is_true_now, reason))
        self._patch(workload, {"status": {"conditions": conditions}}, sub="status")

    def _conditions(self, workload: Obj, *news: tuple[str, bool, str]) -> list[Obj]:
        there = {c["type"]: c for c in (workload.get("status") or {}).get("conditions", ())}
        now = format_time(self._kube.clock.now_s())
        for type_, is_true_now, reason in news:
            status = "True" if is_true_now else "False"
            there[type_] = {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": "",
                "lastTransitionTime": now,
            }
        return list(there.values())

    def _patch(self, workload: Obj, body: Obj, *, sub: str = "") -> None:
        meta = workload["metadata"]
        guarded = body | {"metadata": {"resourceVersion": meta["resourceVersion"]}}
        self._kube.patch(WORKLOAD, meta["name"], guarded, meta["namespace"], sub=sub)

    def _status(self, name: str, namespace: str, status: Obj) -> None:
        self._kube.patch(
            WORKLOAD, name, {"status": status}, namespace, how=Patch.MERGE, sub="status"
        )


def _since_s(workload: Obj, condition: str) -> float:
    conditions = workload["status"]["conditions"]
    return parse_time(next(c["lastTransitionTime"] for c in conditions if c["type"] == condition))


def _pods_of(workload: Obj) -> int:
    return sum(int(s["count"]) for s in workload["spec"]["podSets"])


def _rank(workload: Obj) -> tuple[int, str]:
    """Lowest first: priority, then the younger one."""
    return int(workload["spec"]["priority"]), _inverted(workload["metadata"]["name"])


def _inverted(name: str) -> str:
    return "".join(chr(0x10FFFF - ord(c)) for c in name)
