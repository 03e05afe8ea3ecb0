"""A gang as a value: groups of equal pods, what each asks for, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from taugrid_ray.quantity import Resources, human, scaled, total


class Role(str, Enum):
    HEAD = "head"
    WORKERS = "workers"
    SUBMITTER = "submitter"
    MAIN = "main"
    """The pods of a batch Job."""


class Source(str, Enum):
    """Where a number came from."""

    REQUESTS = "requests"
    LIMITS = "limits"
    """No request was written: the API server takes the limit."""
    LIMIT_RANGE = "LimitRange"
    KUBERAY = "KubeRay"
    """A container that KubeRay adds."""
    KUEUE = "Kueue"
    """Counted by Kueue beside the pod."""
    OVERHEAD = "overhead"
    POD_LEVEL = "pod-level"


class NoteCode(str, Enum):
    """What a person should know about a manifest that is otherwise right."""

    REPLICAS_CLAMPED = "ReplicasClamped"
    GROUP_SUSPENDED = "GroupSuspended"
    GROUP_RENAMED = "GroupRenamed"
    KUEUE_COUNTS_DIFFERENTLY = "KueueCountsDifferently"
    HEAD_ALONE = "HeadAlone"
    NO_ENTRYPOINT = "NoEntrypoint"
    NO_PODS = "NoPods"
    NO_REQUESTS = "NoRequests"
    TINY_MEMORY = "TinyMemory"
    FRACTION_OF_BYTE = "FractionOfByte"
    RAY_VIEW_DIFFERS = "RayViewDiffers"
    AUTOSCALER_CANNOT_SIZE = "AutoscalerCannotSize"
    RAY_RESOURCES_SPELLING = "RayResourcesSpelling"
    HEAD_TOLERATES_ACCELERATORS = "HeadToleratesAccelerators"
    CLAIMS_NOT_COUNTED = "ClaimsNotCounted"
    OVERHEAD_UNKNOWN = "OverheadUnknown"
    OTHER_SCHEDULER = "OtherScheduler"
    NO_QUEUE = "NoQueue"
    NEEDS_FOR_QUEUE = "NeedsForQueue"
    """Fine without a queue; refused by Kueue with one."""
    CLUSTER_SELECTOR = "ClusterSelector"
    MANAGED_ELSEWHERE = "ManagedElsewhere"
    OWNED = "Owned"
    NO_BRAKE = "NoBrake"
    STALE_ANNOTATION = "StaleAnnotation"


@dataclass(frozen=True, slots=True)
class Note:
    code: NoteCode
    message: str
    """One sentence."""
    field: str = ""
    """Path in the manifest; empty where it is about the whole."""


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a pod's sum: a container, the overhead, or a floor that Kueue sets."""

    what: str
    """container, init container, sidecar, autoscaler, submitter, redis cleanup, overhead, pod."""
    name: str
    resources: Resources
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Where each resource's number came from."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A pod set as Kueue is expected to write it into the Workload."""

    name: str
    count: int
    per_pod: Resources

    @property
    def total(self) -> dict[str, Fraction]:
        return scaled(self.per_pod, self.count)


@dataclass(frozen=True, slots=True)
class PodGroup:
    name: str
    """As the manifest spells it; `counted.name` is Kueue's lower-case one."""
    role: Role
    count: int
    """Pods that will be created."""
    per_pod: Resources
    parts: tuple[Part, ...]
    counted: Counted
    min_count: int | None = None
    """The fewest pods it may be admitted with (partial admission), where the user allows that."""
    replicas: int = 1
    min_replicas: int = 1
    max_replicas: int = 1
    num_of_hosts: int = 1
    """Pods per replica: a replica comes and goes whole."""
    ray: Resources = field(default_factory=dict)
    """What Ray will believe one pod has: CPU, GPU, memory and custom resources."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""

    @property
    def total(self) -> dict[str, Fraction]:
        return scaled(self.per_pod, self.count)

    def describe(self) -> str:
        """`8 x worker: 4 CPU, 16Gi memory, 1 nvidia.com/gpu`."""
        each = ", ".join(human(name, amount) for name, amount in self.per_pod.items() if amount)
        return f"{self.count} x {self.name}: {each or 'no requests'}"


@dataclass(frozen=True, slots=True)
class Gang:
    kind: str
    namespace: str
    """Empty where the manifest leaves it to whoever creates it."""
    name: str
    """Empty with generateName."""
    groups: tuple[PodGroup, ...]
    elastic: bool = False
    queue: str = ""
    priority_class: str = ""
    """Kueue's WorkloadPriorityClass."""
    notes: tuple[Note, ...] = ()
    unmanaged: Note | None = None
    """Why Kueue will not manage this object; None where it will."""
    generate_name: str = ""
    autoscaling: bool = False
    suspended: bool = False
    """`spec.suspend` as written."""

    @property
    def managed(self) -> bool:
        return self.unmanaged is None

    @property
    def pods(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def total(self) -> dict[str, Fraction]:
        """What all pods together ask for; without the resources of which they ask for none."""
        return _some(total(group.total for group in self.groups))

    @property
    def counted_total(self) -> dict[str, Fraction]:
        """What Kueue counts."""
        return _some(total(group.counted.total for group in self.groups))

    def group(self, name: str) -> PodGroup:
        """The group by its own or by Kueue's name."""
        for group in self.groups:
            if name in (group.name, group.counted.name):
                return group
        raise KeyError(name)

    def notes_of(self, code: NoteCode) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.code is code)


def _some(resources: Resources) -> dict[str, Fraction]:
    return {name: amount for name, amount in resources.items() if amount}
