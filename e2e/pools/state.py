"""What one loop sees, what it remembers, and what it may do: frozen values only.

Amounts are whole numbers, as the scheduler counts: thousandths of a CPU, bytes, pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from e2e.pools.settings import Pool, Taint
from taugrid_ray.kinds.conditions import Condition, Conditions, find, is_true
from taugrid_ray.kinds.provisioning_request import BOOKING_EXPIRED, FAILED, PROVISIONED
from taugrid_ray.kinds.resource import Obj

Amounts = Mapping[str, int]

PODS = "pods"
POOL_LABEL = "e2e.taugrid.io/pool"
KIND_ANNOTATION = "e2e.taugrid.io/node"
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
HELD_ANNOTATION = "e2e.taugrid.io/held"
"""While it is there, kwok leaves the node as it is: see node-held.yaml."""
READY_AFTER = "e2e.taugrid.io/ready-after-seconds"
ADVERTISE_AFTER = "e2e.taugrid.io/advertise-after"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What a node offers to pods."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str
    shape: NodeShape
    ready: bool
    created_at_s: float
    ready_since_s: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)
    cordoned: bool = False

    @property
    def pool(self) -> str:
        return self.shape.labels.get(POOL_LABEL, "")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class PodShape:
    """What a pod asks of a node. Hashable: equal pods are packed together."""

    requests: tuple[tuple[str, int], ...]
    node_selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: one of the terms must hold as a whole. No terms: any node."""
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    shape: PodShape
    node: str = ""
    has_ended: bool = False
    is_daemon: bool = False
    is_unschedulable: bool = False
    """The scheduler said so, and no gate holds the pod."""
    consumes: str = ""
    """Name of the ProvisioningRequest in the consume annotation."""


@dataclass(frozen=True, slots=True)
class PodSet:
    count: int
    template: str


@dataclass(frozen=True, slots=True)
class Request:
    """One ProvisioningRequest."""

    namespace: str
    name: str
    uid: str
    class_name: str
    pod_sets: tuple[PodSet, ...]
    created_at_s: float
    conditions: Conditions = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    generation: int = 0
    written: tuple[Obj, ...] = ()
    """The conditions as they stand on the API server."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pods(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)

    def condition(self, type_: str) -> Condition | None:
        return find(self.conditions, type_)

    def says(self, type_: str) -> bool:
        return is_true(self.conditions, type_)

    @property
    def is_booked(self) -> bool:
        over = self.says(FAILED) or self.says(BOOKING_EXPIRED)
        return self.says(PROVISIONED) and not over

    def with_condition(self, new: Condition) -> Request:
        """The condition replaces the one of its type in place, or comes last."""
        if self.condition(new.type) is None:
            return replace(self, conditions=(*self.conditions, new))
        changed = tuple(new if old.type == new.type else old for old in self.conditions)
        return replace(self, conditions=changed)


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster as one loop sees it."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    requests: tuple[Request, ...] = ()
    templates: Mapping[tuple[str, str], PodShape] = field(default_factory=dict)
    """By namespace and name."""


@dataclass(frozen=True, slots=True)
class Order:
    """A node that the cloud has promised and that has no Node object yet."""

    pool: str
    name: str
    asked_at_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A pool that is not asked again for a while, because the cloud let it down."""

    until_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Memory:
    """What cloud and autoscaler know from earlier loops."""

    seed: str = ""
    """Makes the node names of two runs differ."""
    serial: int = 0
    orders: tuple[Order, ...] = ()
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    backoff_s: Mapping[str, float] = field(default_factory=dict)
    """Request uid to how long it waits after its last refusal."""
    was_up: frozenset[str] = frozenset()
    """Uids of nodes that have been ready with all their resources."""
    unneeded_since_s: Mapping[str, float] = field(default_factory=dict)
    """By node name."""
    added_at_s: float | None = None
    """When the last scale-up happened."""
    requests_turn: bool = True
    """Where requests and ordinary pods both wait, loops alternate between them."""


@dataclass(frozen=True, slots=True)
class CreateNode:
    pool: Pool
    name: str


@dataclass(frozen=True, slots=True)
class BringUp:
    """Let kwok make a fake node Ready that was held back."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Advertise:
    """What a device plugin does: the node's resources become visible."""

    name: str
    amounts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteNode:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SetConditions:
    request: Request
    """With the conditions as they are to be."""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    request: Request


Action = CreateNode | BringUp | Advertise | DeleteNode | SetConditions | DeleteRequest


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...]
    memory: Memory
    notes: tuple[str, ...] = ()
    """What was decided and why, a sentence each, for the status."""
    again: bool = False
    """A loop that handled a request is followed by the next one at once."""
