"""Count the workers of a group: what runs, what is booked, what is lost, what is new.

Counts are in pods. Only pods are believed, never an object's memory of how many there should be,
except for one number: how many of the group were last admitted and started. Below it a missing pod
is a lost one, which gets its place back without a request; above it, it is a new wish.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controllers.growth.seen import SeenGrowth
from taugrid_ray import names
from taugrid_ray.growth_memory import GrowthMemory
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.pod import Pod
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.raycluster import RayCluster, WorkerGroup
from taugrid_ray.kinds.workload import Workload
from taugrid_ray.verdict import Verdict, answer_of

HEAD_TYPE = "head"


@dataclass(frozen=True, slots=True)
class GroupTally:
    """One worker group. Pods with our gate are `gated`; all other live ones are `running`, bound or
    not.
    """

    index: int
    """In `spec.workerGroupSpecs`."""
    group: WorkerGroup
    wanted: int
    """What the slice holds quota for and the cluster still wants."""
    ungated: tuple[Pod, ...]
    gated: tuple[Pod, ...]
    """Oldest first."""
    admitted: int
    free: int
    """Booked by us and not yet given to a pod."""

    @property
    def running(self) -> int:
        return len(self.ungated)

    @property
    def replacements(self) -> int:
        return max(0, min(self.admitted, self.wanted) - self.running)

    @property
    def new(self) -> int:
        """Wanted beyond what runs or is replaced."""
        return max(0, self.wanted - self.running - self.replacements)

    @property
    def booked(self) -> int:
        return min(self.new, self.free)

    @property
    def delta(self) -> int:
        """What must be asked for."""
        return self.new - self.booked

    @property
    def floor(self) -> int:
        """What stays if nothing more is granted."""
        return self.running + self.replacements + self.booked

    @property
    def floor_replicas(self) -> int:
        return -(-self.floor // self.group.num_of_hosts)

    @property
    def all_exist(self) -> bool:
        """Has KubeRay made a pod for every replica? Before, a lowered limit confuses Ray."""
        return self.running + len(self.gated) >= self.group.wanted_pods


def tally(
    seen: SeenGrowth, cluster: RayCluster, current: Workload, memory: GrowthMemory
) -> tuple[GroupTally, ...]:
    """Every worker group of the cluster, in the order of its spec."""
    counts = {p.name: p.count for p in current.pod_sets}
    before = {p.name: p.count for p in seen.replaced.pod_sets} if seen.replaced else {}
    free = free_by_group(seen)
    found = []
    for index, group in enumerate(cluster.groups):
        own = [p for p in seen.pods if p.is_live and group_of(p) == group.name]
        known = memory.group(group.name)
        # The slice follows the cluster down; what is no longer wanted is not asked for, nor what
        # KubeRay does not make. A limit that we lowered is no such word: the wish still stands.
        made = max(group.wanted_pods, len(own)) if known.clamp is None else group.counted_pods
        found.append(
            GroupTally(
                index=index,
                group=group,
                wanted=min(counts.get(group.pod_set, 0), group.counted_pods, made),
                ungated=tuple(p for p in own if names.GATE not in p.gates),
                gated=tuple(sorted((p for p in own if names.GATE in p.gates), key=_age)),
                # A slice that was shrunk before it was replaced ends what was admitted above it.
                admitted=min(known.admitted, before.get(group.pod_set, known.admitted)),
                free=free.get(group.pod_set, 0),
            )
        )
    return tuple(found)


def _age(pod: Pod) -> tuple[float, str]:
    return (pod.meta.created_at_s or 0.0, pod.meta.name)


def group_of(pod: Pod) -> str:
    return pod.meta.labels.get(names.RAY_GROUP_LABEL, "")


def is_head(pod: Pod) -> bool:
    return pod.meta.labels.get(names.RAY_NODE_TYPE) == HEAD_TYPE


def counts_of(request: ProvisioningRequest) -> Mapping[str, int]:
    """Pod set name -> pods, as written on the request when it was made."""
    try:
        raw = json.loads(request.meta.annotations.get(names.COUNTS, "{}"))
    except ValueError:
        return {}
    return {name: fields.integer(raw, name) or 0 for name in raw} if isinstance(raw, dict) else {}


def is_booked(request: ProvisioningRequest) -> bool:
    return answer_of(request).verdict is Verdict.BOOKED and not request.meta.is_terminating


def given(seen: SeenGrowth, request: str) -> tuple[Pod, ...]:
    """The pods that carry this booking's name."""
    return tuple(p for p in seen.pods if p.booking == request)


def free_of(seen: SeenGrowth, request: ProvisioningRequest) -> dict[str, int]:
    """Pod set name -> pods of this booking that no pod has got."""
    left = dict(counts_of(request))
    for pod in given(seen, request.meta.name):
        pod_set = pod.meta.labels.get(names.POD_SET, "")
        left[pod_set] = left.get(pod_set, 0) - 1
    return {name: count for name, count in left.items() if count > 0}


def free_by_group(seen: SeenGrowth) -> dict[str, int]:
    total: dict[str, int] = {}
    for request in seen.requests:
        if is_booked(request):
            for name, count in free_of(seen, request).items():
                total[name] = total.get(name, 0) + count
    return total
