"""Each deliberate fault in the growth decision is found by its tables."""

from __future__ import annotations

import pytest

from tests.controllers.mutations import Fault, made
from tests.controllers.test_mutations import cases, finds
from tests.growth import test_decide, test_memory


def _fault(says: str, module: str, before: str, after: str) -> Fault:
    package = "taugrid_ray" if module == "growth_memory" else "controllers.growth"
    return Fault(says, f"{package}.{module}", before, after)


FAULTS = (
    _fault("lost workers are asked for", "tally",
           "return max(0, min(self.admitted, self.wanted) - self.running)", "return 0"),
    _fault("what runs is asked for", "tally",
           "self.wanted - self.running - self.replacements)", "self.wanted - self.replacements)"),
    _fault("what is booked is asked for again", "tally", "return self.new - self.booked",
           "return self.new"),
    _fault("a shrunk slice is forgotten", "tally",
           "min(admitted, before.get(group.pod_set, admitted))", "admitted"),
    _fault("more is asked for than the cluster wants", "tally",
           "min(counts.get(group.pod_set, 0), group.counted_pods)",
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
           "if not all(t.all_exist for t in losing):", "if 0:"),
    _fault("all groups are lowered for one", "decide",
           "if t.group.pod_set in refused)", "if refused)"),
    _fault("a growth has no deadline", "decide", "elif self.now_s < until_s:", "elif 1:"),
    _fault("nobody steps in for a dead autoscaler", "decide", "due.append(t)", "pass"),
    _fault("lost workers wait behind a growth", "decide", "if self._somebody_waits_behind():",
           "if 0:"),
    _fault("a used booking is kept", "decide", "return bool(heads & set(free)) or any(",
           "return True or any("),
    _fault("an admin's edit is written over", "limits",
           "held.before.most if group.max_replicas == held.lowered.most else group.max_replicas",
           "held.before.most"),
    _fault("the limit falls below the minimum", "limits",
           "max(t.floor_replicas, group.min_replicas)), before.least",
           "t.floor_replicas), before.least"),
    _fault("the minimum comes back alone", "limits", "if wanted.least > group.replicas:", "if 0:"),
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
)  # fmt: skip


def test_without_a_fault_nothing_is_found() -> None:
    for module in (test_decide, test_memory):
        for case in cases(module):
            case()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_every_fault_is_found(fault: Fault) -> None:
    with made(fault):
        found = any(finds(case) for module in (test_decide, test_memory) for case in cases(module))
    assert found, f"nobody noticed: {fault.says}"
