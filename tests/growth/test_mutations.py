"""Each deliberate fault in the growth decision is found by its tables."""

from __future__ import annotations

import pytest

from tests.controllers.mutations import Fault, made
from tests.controllers.test_mutations import cases, finds
from tests.growth import test_decide, test_edges, test_memory, test_perform, test_tally

TABLES = (test_decide, test_edges, test_memory, test_perform, test_tally)


PACKAGES = {
    "growth_memory": "taugrid_ray",
    "growth_limits": "taugrid_ray",
    "perform": "controllers",
}


def _fault(says: str, module: str, before: str, after: str) -> Fault:
    return Fault(says, f"{PACKAGES.get(module, 'controllers.growth')}.{module}", before, after)


FAULTS = (
    _fault("lost workers are asked for", "tally",
           "return max(0, min(self.admitted, self.wanted) - self.running)", "return 0"),
    _fault("what runs is asked for", "tally",
           "self.wanted - self.running - self.replacements)", "self.wanted - self.replacements)"),
    _fault("what is booked is asked for again", "tally", "return self.new - self.booked",
           "return self.new"),
    _fault("a shrunk slice is forgotten", "tally",
           "min(known.admitted, before.get(group.pod_set, known.admitted))", "known.admitted"),
    _fault("more is asked for than the cluster wants", "tally",
           "min(counts.get(group.pod_set, 0), group.counted_pods, made)",
           "counts.get(group.pod_set, 0)"),
    _fault("hosts are taken for replicas", "tally", "-(-self.floor // self.group.num_of_hosts)",
           "self.floor"),
    _fault("a booking lasts for ever", "tally", "answer_of(request).verdict is Verdict.BOOKED",
           "answer_of(request).verdict is not Verdict.SILENT"),
    _fault("pods that Kueue holds are let go", "release",
           "ready = [pod for pod in t.gated if not held_by_kueue(pod)]", "ready = list(t.gated)"),
    _fault("new workers go before all is booked", "release", "if not with_bookings:", "if 0:"),
    _fault("names of dead bookings stay", "release", "and p.booking not in live", "and 0"),
    _fault("growth goes on while the limit is lowered", "decide",
           "if t.delta > 0 and t not in clamped", "if t.delta > 0"),
    _fault("the limit is lowered before all pods are made", "decide",
           "may_lower = all(t.all_exist for t in losing) or", "may_lower = True or"),
    _fault("all groups are lowered for one", "decide",
           "if t.group.pod_set in refused)", "if refused)"),
    _fault("a growth has no deadline", "decide", "elif self.now_s < until_s:", "elif 1:"),
    _fault("nobody steps in for a dead autoscaler", "decide", "due.append(t)", "pass"),
    _fault("lost workers wait behind a growth", "decide", "if self._somebody_waits_behind():",
           "if 0:"),
    _fault("a used booking is kept", "decide", "return bool(heads & set(free)) or any(",
           "return True or any("),
    _fault("an admin's edit is written over", "growth_limits",
           "held.before.most if group.max_replicas == held.lowered.most else group.max_replicas",
           "held.before.most"),
    _fault("the limit falls below the minimum", "limits",
           "max(t.floor_replicas, group.min_replicas)), before.least",
           "t.floor_replicas), before.least"),
    _fault("the minimum comes back alone", "growth_limits",
           "if wanted.least > group.replicas:", "if 0:"),
    _fault("refusals are never forgiven", "limits",
           "failures = 0 if t.wanted > known.admitted else known.failures",
           "failures = known.failures"),
    _fault("an expired booking is taken for asked", "asking", "serial += 1", "serial += 0"),
    _fault("each look starts the clock anew", "asking",
           "if notes.get(names.RESERVATION) != mark:", "if 1:"),
    _fault("refusals are not remembered", "growth_memory", 'raw["failures"] = group.failures',
           "pass"),
    _fault("what to give back is lost", "growth_memory",
           'before=_limits(fields.mapping(raw, "before")),',
           'before=_limits(fields.mapping(raw, "lowered")),'),
    _fault("what is no longer made is asked for", "tally",
           "max(group.wanted_pods, len(own)) if", "99 if"),
    _fault("the dead count as running", "tally", "if p.is_live and group_of(p)",
           "if group_of(p)"),
    _fault("the youngest go first", "tally", "return (pod.meta.created_at_s or 0.0, pod.meta.name)",
           "return (-(pod.meta.created_at_s or 0.0), pod.meta.name)"),
    _fault("given away is still free", "tally", "left.get(pod_set, 0) - 1", "left.get(pod_set, 0)"),
    _fault("a lost worker waits behind a refusal", "decide",
           "if not self._somebody_waits_behind():", "if 1:"),
    _fault("a lost head waits behind a growth", "decide",
           "if any(is_head(p) for p in held):", "if 0:"),
    _fault("pods that never come hold a refusal up", "decide",
           "or now_s >= until_s + MAKING_S", "or 0"),
    _fault("KubeRay chooses what to delete", "decide", "if not self.cluster.is_autoscaling:",
           "if 0:"),
    _fault("a broken policy leaves requests waiting", "decide",
           "with_bookings=False, kept=())", "with_bookings=False, kept=self.seen.requests)"),
    _fault("nobody wakes up to give limits back", "decide",
           "_sooner(found.wake_after_s, wake_s)", "found.wake_after_s"),
    _fault("only a finished job gives back", "decide", "or job.suspended", "or 0"),
    _fault("an eviction is overlooked", "decide", "or current.is_true(wl.EVICTED)", "or 0"),
    _fault("a suspended cluster grows", "decide", "or cluster.suspend", "or 0"),
    _fault("a slice waits on after the end", "decide",
           "change = limits.withdraw(change, t)\n    return", "pass\n    return"),
    _fault("the same is said again and again", "decide", "or entry[2] == told.sentence", "or 0"),
    _fault("half of a wish is Ready", "decide", "with_bookings=not growing", "with_bookings=True"),
    _fault("what waits is noted as started", "decide",
           "and all(t.running >= t.wanted for t in ours)", ""),
    _fault("what is not admitted is noted as started", "decide",
           "if self.current.is_true(wl.ADMITTED) and all", "if all"),
    _fault("a cold request in use is never deleted", "decide",
           "(names.CLUSTER_UID in r.meta.labels or _is_used(seen, r))",
           "names.CLUSTER_UID in r.meta.labels"),
    _fault("a cold request is taken from a gang that waits", "decide",
           "(names.CLUSTER_UID in r.meta.labels or _is_used(seen, r))", "True"),
    _fault("a replica that runs is named for deletion", "limits", "if replica in running:",
           "if 0:"),
    _fault("two replicas go for one", "limits", "if pods < 0:", "if 0:"),
    _fault("the autoscaler's names are lost", "limits", "{*group.workers_to_delete, *surplus}",
           "{*surplus}"),
    _fault("groups that are gone stay in memory", "growth_limits", "if name in there}", "if 1}"),
    _fault("pauses do not grow", "decide", "cooldown.pause_s(failures)", "cooldown.pause_s(1)"),
    _fault("steps are never left", "asking", "failures -= step.attempts", "failures -= 0"),
    _fault("growth belongs to the job", "asking", "cluster_uid=cluster.meta.uid,", ""),
    _fault("a head gets no name", "release", "for pod in waiting_heads(seen):", "for pod in ():"),
    _fault("a changed pod is written over", "perform",
           '{"op": "test", "path": "/metadata/resourceVersion", "value": pod.pod.version},', ""),
    _fault("whatever gate is there is taken off", "growth_limits",
           '{"op": "test", "path": f"{gate}/name", "value": names.GATE},', ""),
    _fault("a pod without annotations cannot be released", "perform",
           "if stamped and not pod.had_notes:", "if 0:"),
    _fault("one pod holds up all", "perform", "except (Conflict, NotFound):", "except KeyError:"),
    _fault("a newer cluster is written over", "growth_limits",
           '{"op": "test", "path": "/metadata/resourceVersion", "value": version}', ""),
    _fault("whatever group is there is changed", "growth_limits",
           '{"op": "test", "path": f"{at}/groupName", "value": group.name}', ""),
)  # fmt: skip


def test_without_a_fault_nothing_is_found() -> None:
    """Else every fault would be "found"."""
    all_cases = [case for module in TABLES for case in cases(module)]
    assert len(all_cases) > 180
    for case in all_cases:
        case()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_every_fault_is_found(fault: Fault) -> None:
    with made(fault):
        found = any(finds(case) for module in TABLES for case in cases(module))
    assert found, f"nobody noticed: {fault.says}"
