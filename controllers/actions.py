"""Everything the controller may do, as values.

A decision lists them in order; `perform.py` has one match over all of them. None may suspend a
job, make or delete a Workload, bind a pod or resize a pool: there is no action for it. Those
that change an object somebody else writes carry the resourceVersion they were decided on, so
that a decision about an older state is refused by the API server instead of carried out.
"""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_ray.growth_limits import GroupChange
from taugrid_ray.growth_memory import GrowthMemory
from taugrid_ray.kinds.meta import OwnerRef
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kinds.workload import CheckState
from taugrid_ray.memory import Memory
from taugrid_ray.reasons import Reason


@dataclass(frozen=True, slots=True)
class Target:
    """One object at one moment. `version` is empty where the write needs no guard."""

    namespace: str
    name: str
    uid: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """A PodTemplate or ProvisioningRequest of ours; one that is there already is done."""

    kind: Resource
    obj: Obj


@dataclass(frozen=True, slots=True)
class Delete:
    """A PodTemplate or ProvisioningRequest of ours; that very one (by uid)."""

    kind: Resource
    target: Target


@dataclass(frozen=True, slots=True)
class SetCheck:
    """Rewrite our entry of a Workload's checks."""

    workload: Target
    index: int
    check: str
    state: CheckState
    reason: Reason
    message: str
    now_s: float
    updates: tuple[Obj, ...] = ()


@dataclass(frozen=True, slots=True)
class Park:
    """`spec.active: false` and the memory, in one patch: frees the quota within seconds."""

    workload: Target
    memory: Memory


@dataclass(frozen=True, slots=True)
class Unpark:
    """`spec.active: true` and the memory, in one patch."""

    workload: Target
    memory: Memory


@dataclass(frozen=True, slots=True)
class Forget:
    """Take the memory off: the gang ran, or somebody started it afresh."""

    workload: Target


@dataclass(frozen=True, slots=True)
class Unstamp:
    """Take the consume annotations off a pod whose booking is over: the autoscaler may help it."""

    pod: Target


@dataclass(frozen=True, slots=True)
class PodRelease:
    """One pod that may go: our gate comes off, the booking's name, if it has one, goes on."""

    pod: Target
    gate_index: int | None
    """None for a pod that never had our gate, such as the head."""
    had_notes: bool
    """Does the pod have annotations at all? A JSON patch must know."""
    workload_uid: str
    booking: str = ""
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Pods of one cluster, all at once: a hundred calls in a row would outlast patience."""

    pods: tuple[PodRelease, ...]


@dataclass(frozen=True, slots=True)
class SetGroups:
    """Limits and counts of a RayCluster's groups, and what we remember of them, in one patch."""

    cluster: Target
    groups: tuple[GroupChange, ...]
    memory: GrowthMemory
    had_notes: bool
    """Does the object have annotations at all? A JSON patch must know."""


@dataclass(frozen=True, slots=True)
class SetCondition:
    """One condition in the status of an AdmissionCheck or CapacityPolicy."""

    kind: Resource
    target: Target
    type: str
    is_true: bool
    reason: str
    message: str
    generation: int
    now_s: float


@dataclass(frozen=True, slots=True)
class Announce:
    """An event on the user's own object. `key` makes its name: the same news is told once."""

    about: OwnerRef
    namespace: str
    reason: Reason
    note: str
    warning: bool
    key: str
    now_s: float


Action = (
    Create
    | Delete
    | SetCheck
    | Park
    | Unpark
    | Forget
    | Unstamp
    | Release
    | SetGroups
    | SetCondition
    | Announce
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and when to look again at the latest. Nothing and None: at rest."""

    actions: tuple[Action, ...] = ()
    wake_after_s: float | None = None
    needs_nodes: bool = False
    """Look again when a node changes."""
