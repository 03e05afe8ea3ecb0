"""A Ray cluster that runs on fake nodes, and the Ray autoscaler's part: what it would write is
written by the scenario, in the form in which the real one writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.scenarios.manifests import elastic_group, on, ray_cluster
from e2e.scenarios.stage import Stage
from taugrid_ray import names
from taugrid_ray.growth_memory import GrowthMemory, parse_growth_memory
from taugrid_ray.kinds import workload as wl
from taugrid_ray.kinds.conditions import is_true
from taugrid_ray.kinds.pod import RUNNING, Pod, parse_pod
from taugrid_ray.kinds.provisioning_request import (
    ProvisioningRequest,
    parse_provisioning_request,
)
from taugrid_ray.kinds.raycluster import RayCluster, parse_raycluster
from taugrid_ray.kinds.resource import (
    PROVISIONING_REQUEST,
    RAY_CLUSTER,
    WORKLOAD,
    Obj,
)
from taugrid_ray.kinds.workload import Workload, parse_workload
from taugrid_ray.kube.api import Patch

CLUSTER = "ray"


@dataclass
class Grower:
    """One RayCluster of a scenario, and the Ray autoscaler's part played on it."""

    stage: Stage
    name: str = CLUSTER

    def seen(self) -> RayCluster:
        found = self.stage.record.get(RAY_CLUSTER, self.name, self.stage.namespace)
        assert found is not None
        return parse_raycluster(found)

    def memory(self) -> GrowthMemory:
        return parse_growth_memory(self.seen().meta.annotations.get(names.GROWTH)) or GrowthMemory()

    def pods(self, group: str = "") -> list[Pod]:
        """Live pods of the cluster, or of one group."""
        pods = [parse_pod(p) for p in self.stage.pods()]
        return [
            p
            for p in pods
            if p.is_live and (not group or p.meta.labels.get(names.RAY_GROUP_LABEL) == group)
        ]

    def running(self, group: str) -> int:
        return sum(1 for p in self.pods(group) if p.phase == RUNNING and p.is_ready)

    def gated(self, group: str) -> list[Pod]:
        return [p for p in self.pods(group) if p.gates]

    def slices(self) -> list[Workload]:
        """Of this cluster, those that are not finished."""
        found = [parse_workload(o) for o in self.stage.record.all(WORKLOAD, self.stage.namespace)]
        return [
            w
            for w in found
            if w.job is not None and w.job.name == self.name and not w.is_true(wl.FINISHED)
        ]

    def is_settled(self) -> bool:
        """One slice, admitted, and nothing of ours waits."""
        slices = self.slices()
        return len(slices) == 1 and slices[0].is_true(wl.ADMITTED) and self.stage.nothing_of_ours()

    def wish(self, **replicas: int) -> None:
        """As the autoscaler launches: all groups in one JSON patch, by index."""
        groups = [g.name for g in self.seen().groups]
        self.patch(
            [
                {
                    "op": "replace",
                    "path": f"/spec/workerGroupSpecs/{groups.index(name)}/replicas",
                    "value": count,
                }
                for name, count in replicas.items()
            ]
        )

    def withdraw(self) -> None:
        """As the autoscaler does when a limit is below what there is: it names waiting pods and
        lowers the count to the limit."""
        ops: list[Obj] = []
        for index, group in enumerate(self.seen().groups):
            surplus = group.replicas - group.max_replicas
            if surplus <= 0:
                continue
            waiting = [p.meta.name for p in self.gated(group.name)]
            ops += self.terminate(index, waiting[:surplus], group.max_replicas)
        if ops:
            self.patch(ops)

    @staticmethod
    def terminate(index: int, pods: list[str], replicas: int) -> list[Obj]:
        place = f"/spec/workerGroupSpecs/{index}"
        strategy = {"workersToDelete": pods}
        return [
            {"op": "replace", "path": f"{place}/replicas", "value": replicas},
            {"op": "add", "path": f"{place}/scaleStrategy", "value": strategy},
        ]

    def shrink(self, group: str, pods: list[str], replicas: int) -> None:
        """As the autoscaler terminates idle workers."""
        index = [g.name for g in self.seen().groups].index(group)
        self.patch(self.terminate(index, pods, replicas))

    def patch(self, ops: list[Obj]) -> None:
        self.stage.patch(RAY_CLUSTER, self.name, ops, how=Patch.JSON)

    def most(self) -> int:
        """`maxReplicas` of the first group."""
        return self.seen().groups[0].max_replicas

    def needs_withdrawal(self) -> bool:
        return any(g.replicas > g.max_replicas for g in self.seen().groups)


def start(stage: Stage, *groups: Obj, running: dict[str, int], **policy: object) -> Grower:
    """A policy, a queue, and a cluster with head and first workers running."""
    growth = {"deadline": 60, "cooldown": {"baseSeconds": 3, "maxSeconds": 6}}
    stage.policy(growth={**growth, **policy})
    stage.queues()
    stage.pools(stage.pool(max_=5))
    return begin(stage, *groups, running=running)


def begin(stage: Stage, *groups: Obj, running: dict[str, int]) -> Grower:
    grower = Grower(stage)
    stage.create(RAY_CLUSTER, ray_cluster(CLUSTER, list(groups)))
    stage.wait_for(
        "head and first workers run",
        lambda: (
            grower.running("headgroup") == 1
            and all(grower.running(name) == count for name, count in running.items())
        ),
        60,
    )
    stage.wait_for("the first booking is used up", grower.is_settled, 20)
    return grower


def start_on_two_pools(stage: Stage) -> Grower:
    """Group `small` with a worker on pool a, group `big` with none on pool b, which has no room."""
    stage.policy(growth={"deadline": 60})
    stage.queues([("a", {"cpu": "20"}), ("b", {"cpu": "20"})])
    stage.pools(stage.pool("a"), stage.pool("b", max_=0))
    return begin(
        stage,
        on(elastic_group("small", 1), {"pool": stage.own("a")}),
        on(elastic_group("big", 0), {"pool": stage.own("b")}),
        running={"small": 1},
    )


@contextmanager
def same_pods(grower: Grower) -> Iterator[None]:
    """What runs at the start of the block must be the same pods at its end."""
    before = {p.meta.uid for p in grower.pods() if p.phase == RUNNING}
    yield
    lost = before - {p.meta.uid for p in grower.pods() if p.phase == RUNNING}
    grower.stage.expect(not lost, f"{len(lost)} of the {len(before)} pods that ran are gone")


def asked(stage: Stage) -> Callable[[], list[int]]:
    """Pods of each request there ever was, in the order in which they came."""
    mark = stage.record.mark()

    def found() -> list[int]:
        return [
            parse_provisioning_request(seen.some).pods
            for seen in stage.record.since(mark)
            if seen.kind == PROVISIONING_REQUEST
            and seen.before is None
            and seen.key.namespace == stage.namespace
        ]

    return found


def asked_now(stage: Stage) -> list[int]:
    """Pods of each request that is there now."""
    return [r.pods for r in stage.requests()]


def is_booked(request: ProvisioningRequest) -> bool:
    return is_true(request.conditions, "Provisioned")
