"""For each reason, sentences as the code says them: what docs/troubleshooting.md must show."""

from __future__ import annotations

from collections.abc import Mapping

from taugrid_ray import sentences
from taugrid_ray.jobs.state import state_of
from taugrid_ray.reasons import Reason
from taugrid_ray.sentences import Told
from tests.jobs.builders import T0, job, pod, seen, workload

GANG = sentences.size([("gpu", 3)])
TWO_POOLS = sentences.size([("cpu", 1), ("gpu", 2)])
FIRST = sentences.attempt_of(1, 3)
LAST = sentences.attempt_of(3, 3)
GPU = "nvidia.com/gpu"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
NO_ROOM = "Capacity is not found, CA will try to find it later."
UNTIL_S = T0 + 900
TIMED_OUT = sentences.timed_out(GANG, 900, NO_ROOM, CLASS)
MORE = sentences.size([("gpu", 2)])
MORE_TIMED_OUT = sentences.timed_out(MORE, 900, NO_ROOM, CLASS)


def _queued() -> Told:
    """What `taugrid status` says of a job without quota."""
    owner = job()
    words = "insufficient quota for nvidia.com/gpu in flavor gpu, 4 more needed"
    told = {"QuotaReserved": ("False", "Pending", words, 5.0)}
    state = state_of(seen(owner, workload(owner, told=told)), T0 + 100)
    return Told(Reason(state.reason), state.sentence)


def _starting() -> Told:
    """What `taugrid status` says of a job of which one pod is up."""
    owner = job(suspend=False)
    admitted = workload(owner, told={"QuotaReserved": "True", "Admitted": "True"})
    pods = [pod("a", ready=True, node="n1"), pod("b", node="n1"), pod("c", node="n2")]
    state = state_of(seen(owner, admitted, pods=pods), T0 + 100)
    return Told(Reason(state.reason), state.sentence)


_SAID = (
    _queued(),
    sentences.not_needed(),
    sentences.requested(GANG, FIRST, UNTIL_S),
    sentences.waiting(GANG, FIRST, NO_ROOM, UNTIL_S),
    sentences.booked(TWO_POOLS),
    sentences.waiting_for_nodes(GANG, 1, UNTIL_S),
    sentences.waiting_for_accelerators(GANG, GPU, UNTIL_S),
    _starting(),
    sentences.failed(GANG, "Provisioning Request's pods were not created: template is missing"),
    TIMED_OUT,
    sentences.timed_out(GANG, 900, "", CLASS),
    sentences.parked(TIMED_OUT, FIRST, UNTIL_S + 60),
    sentences.expired(GANG),
    sentences.revoked(GANG, "the node group was reclaimed"),
    sentences.refused(GANG, 'admission webhook "policy.example.com" denied the request'),
    sentences.nodes_timed_out(GANG, 2, 600),
    sentences.accelerators_timed_out(GANG, GPU, 300),
    sentences.pods_timed_out(GANG, 2, 600),
    sentences.policy_invalid('CapacityPolicy "gpu" is missing'),
    sentences.gang_invalid(
        'pod set "workers" already carries the annotation '
        "autoscaling.x-k8s.io/consume-provisioning-request; remove it from the pod template: "
        "the booking's name is put there at admission"
    ),
    sentences.resumed(sentences.attempt_of(2, 3)),
    sentences.gave_up(TIMED_OUT, LAST),
    sentences.growing(MORE, 4, "", UNTIL_S),
    sentences.growth_settled(),
    sentences.growth_refused("workers", 2, 4, MORE_TIMED_OUT, UNTIL_S + 60),
    sentences.growth_withdrawn(["workers"]),
    sentences.growth_given_back(),
)

NEVER_SAID = {Reason.INTERNAL_ERROR}
"""Of a bug no user is told; it stands in the controller's log and metrics."""


def said() -> Mapping[Reason, tuple[str, ...]]:
    return {
        reason: tuple(told.sentence for told in _SAID if told.reason is reason)
        for reason in Reason
        if reason not in NEVER_SAID
    }
