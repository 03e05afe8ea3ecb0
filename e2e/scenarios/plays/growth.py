"""A running Ray cluster grows, on fake nodes: what the Ray autoscaler would write is written by the
scenario, in the form in which the real one writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from e2e.scenarios.manifests import elastic_group, ray_cluster
from e2e.scenarios.plays.pools import on
from e2e.scenarios.registry import scenario
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
    CLUSTER_QUEUE,
    POD,
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


@scenario("growth-delta-only", in_test=True)
def growth(stage: Stage) -> None:
    """One worker runs, four are wanted: one request for the three that are new."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=4)
        stage.wait_for("four workers run", lambda: grower.running("small") == 4, 60)
        stage.expect(requests() == [3], f"one request for 3 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-timeout", in_test=True)
def refused(stage: Stage) -> None:
    """No room for more: the limit is lowered, the wish withdrawn, and what ran runs on."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1}, deadline=4)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=8)
        stage.wait_for("it says that it grows", lambda: stage.events("Growing"), 20)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
        most = grower.seen().groups[0].max_replicas
        stage.expect(most == 1, f"maxReplicas lowered to what runs, found {most}")
        stage.wait_for("it says so", lambda: stage.events("GrowthRefused"), 10)
        grower.withdraw()
        stage.wait_for("the slice is admitted at what it had", grower.is_settled, 30)
        stage.expect(grower.slices()[0].pod_sets[1].count == 1, "the slice must have shrunk")
        stage.wait_for(
            "maxReplicas is given back", lambda: grower.seen().groups[0].max_replicas == 10, 20
        )
        stage.expect(not grower.memory().group("small").clamp, "the memory must know")


@scenario("growth-two-groups-one-request")
def two_groups(stage: Stage) -> None:
    """Two groups of one pool grow in one wish: one request for both."""
    groups = (elastic_group("small", 1), elastic_group("big", 0, cpu="2"))
    grower = start(stage, *groups, running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for("the small ones run", lambda: grower.running("small") == 3, 60)
        stage.wait_for("the big ones run", lambda: grower.running("big") == 2, 60)
        stage.expect(requests() == [4], f"one request for 2 + 2 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-two-pools")
def two_pools(stage: Stage) -> None:
    """Two groups of two pools grow in one wish: a request each, and none starts before both."""
    stage.policy(growth={"deadline": 60})
    stage.queues([("a", {"cpu": "20"}), ("b", {"cpu": "20"})])
    stage.pools(stage.pool("a"), stage.pool("b", max_=0))
    grower = begin(
        stage,
        on(elastic_group("small", 1), {"pool": stage.own("a")}),
        on(elastic_group("big", 0), {"pool": stage.own("b")}),
        running={"small": 1},
    )
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for("two requests exist", lambda: len(stage.requests()) == 2, 20)
        stage.wait_for("one of them is booked", lambda: any(map(_is_booked, stage.requests())), 20)
        stage.never(
            "a worker starts before both are booked", lambda: grower.running("small") > 1, 5
        )
        stage.pools(stage.pool("a"), stage.pool("b"))
        stage.wait_for(
            "all run", lambda: grower.running("small") == 3 and grower.running("big") == 2, 60
        )
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _is_booked(request: ProvisioningRequest) -> bool:
    return is_true(request.conditions, "Provisioned")


@scenario("growth-from-head-only")
def from_head_only(stage: Stage) -> None:
    """A cluster that starts as a head alone grows from zero workers."""
    grower = start(stage, elastic_group("small", 0), running={})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=2)
        stage.wait_for("two workers run", lambda: grower.running("small") == 2, 60)
        stage.expect(requests() == [2], f"one request for 2 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("growth-again-after-cooldown")
def again(stage: Stage) -> None:
    """Refused once, a second wish after the cool-down is a new attempt, and succeeds."""
    grower = _refused_once(stage)
    stage.pools(stage.pool(max_=5))
    stage.wait_for("maxReplicas is given back", lambda: _most(grower) == 10, 20)
    grower.wish(small=3)
    stage.wait_for("three workers run", lambda: grower.running("small") == 3, 60)
    stage.wait_for("nothing is left of it", grower.is_settled, 20)
    stage.wait_for(
        "success ends the row of refusals", lambda: grower.memory().group("small").failures == 0, 10
    )


def _refused_once(stage: Stage) -> Grower:
    grower = start(stage, elastic_group("small", 1), running={"small": 1}, deadline=3)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    grower.wish(small=8)
    stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
    grower.withdraw()
    stage.wait_for("the slice is what it was", grower.is_settled, 30)
    return grower


def _most(grower: Grower) -> int:
    return grower.seen().groups[0].max_replicas


@scenario("max-replicas-given-back")
def given_back(stage: Stage) -> None:
    """The lowered limit is given back after the cool-down, and the next pause is longer."""
    grower = _refused_once(stage)
    stage.wait_for("maxReplicas is given back", lambda: _most(grower) == 10, 20)
    grower.wish(small=8)
    stage.wait_for("it is lowered again", grower.needs_withdrawal, 30)
    held = grower.memory().group("small").clamp
    stage.expect(held is not None and held.until_s - held.at_s == 6, f"6 s this time: {held}")
    grower.withdraw()
    stage.wait_for("and given back again", lambda: _most(grower) == 10, 30)
    stage.wait_for("the slice is what it was", grower.is_settled, 30)


@scenario("admin-edits-max-during-clamp")
def admin_edits(stage: Stage) -> None:
    """What an admin writes while the limit is lowered stays; ours is not written over it."""
    grower = _refused_once(stage)
    stage.expect(_most(grower) == 1, "still lowered")
    place = "/spec/workerGroupSpecs/0/maxReplicas"
    grower.patch([{"op": "replace", "path": place, "value": 4}])
    stage.wait_for("we forget the clamp", lambda: not grower.memory().group("small").clamp, 20)
    stage.expect(_most(grower) == 4, f"the admin's 4, found {_most(grower)}")


@scenario("wish-replaced-while-waiting")
def wish_replaced(stage: Stage) -> None:
    """A larger wish while one waits: the old request goes, one for the whole delta comes."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=6)
        stage.wait_for("five are asked for", lambda: _asked_now(stage) == [5], 20)
        grower.wish(small=8)
        stage.wait_for("seven are asked for", lambda: _asked_now(stage) == [7], 20)
        stage.pools(stage.pool(max_=5))
        stage.wait_for("eight workers run", lambda: grower.running("small") == 8, 60)
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _asked_now(stage: Stage) -> list[int]:
    return [r.pods for r in stage.requests()]


@scenario("wish-replaced-after-booking")
def replaced_after_booking(stage: Stage) -> None:
    """What is booked counts: a larger wish asks only for what is not booked yet."""
    stage.policy(growth={"deadline": 60})
    stage.queues([("a", {"cpu": "20"}), ("b", {"cpu": "20"})])
    stage.pools(stage.pool("a"), stage.pool("b", max_=0))
    grower = begin(
        stage,
        on(elastic_group("small", 1), {"pool": stage.own("a")}),
        on(elastic_group("big", 0), {"pool": stage.own("b")}),
        running={"small": 1},
    )
    with same_pods(grower):
        grower.wish(small=3, big=2)
        stage.wait_for(
            "the first pool is booked", lambda: any(map(_is_booked, stage.requests())), 20
        )
        requests = asked(stage)
        grower.wish(small=5, big=2)
        stage.wait_for("the new wish is asked for", lambda: sorted(requests()) == [2, 2], 20)
        stage.pools(stage.pool("a"), stage.pool("b"))
        stage.wait_for(
            "all run", lambda: grower.running("small") == 5 and grower.running("big") == 2, 60
        )
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("wish-withdrawn")
def wish_withdrawn(stage: Stage) -> None:
    """A wish taken back while it waits leaves no request and no quota behind."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=6)
        stage.wait_for("five are asked for", lambda: _asked_now(stage) == [5], 20)
        waiting = [p.meta.name for p in grower.gated("small")]
        grower.shrink("small", waiting, 1)
        stage.wait_for("nothing is left of it", grower.is_settled, 20)
        stage.expect(grower.slices()[0].pod_sets[1].count == 1, "the slice must have shrunk")


@scenario("one-group-up-one-down")
def up_and_down(stage: Stage) -> None:
    """One group grows while another shrinks: the growth alone is asked for."""
    groups = (elastic_group("small", 2), elastic_group("big", 0, cpu="2"))
    grower = start(stage, *groups, running={"small": 2})
    requests = asked(stage)
    idle = grower.pods("small")[0].meta.name
    grower.patch(
        [
            *grower.terminate(0, [idle], 1),
            {"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": 2},
        ]
    )
    stage.wait_for("big runs", lambda: grower.running("big") == 2, 60)
    stage.wait_for("small is one less", lambda: grower.running("small") == 1, 30)
    stage.expect(requests() == [2], f"one request for 2 pods, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("shrink-returns-quota")
def shrink(stage: Stage) -> None:
    """A cluster that lets idle workers go returns their quota, and grows again only by asking."""
    grower = start(stage, elastic_group("small", 3), running={"small": 3})
    idle = [p.meta.name for p in grower.pods("small")[:2]]
    grower.shrink("small", idle, 1)
    stage.wait_for("the slice is one worker", lambda: _count(grower) == 1, 20)
    stage.wait_for("one runs", lambda: len(grower.pods("small")) == 1, 30)
    stage.wait_for("it is remembered", lambda: grower.memory().group("small").admitted == 1, 10)
    requests = asked(stage)
    grower.shrink("small", [], 3)
    stage.wait_for("three run again", lambda: grower.running("small") == 3, 60)
    stage.expect(requests() == [2], f"the two are asked for again, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _count(grower: Grower) -> int:
    slices = grower.slices()
    return slices[0].pod_sets[1].count if len(slices) == 1 else -1


@scenario("grow-at-quota-edge")
def quota_edge(stage: Stage) -> None:
    """A wish beyond the quota waits for quota; nothing is asked for, and what runs runs on."""
    stage.policy()
    stage.queues([("cpu", {"cpu": "4"})])
    stage.pools(stage.pool())
    grower = begin(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        grower.wish(small=5)
        stage.wait_for("the larger slice waits", lambda: len(grower.slices()) == 2, 20)
        stage.never("it is asked for", requests, 5)
        queue = {"spec": {"resourceGroups": _quota(stage, "20")}}
        stage.api.patch(CLUSTER_QUEUE, stage.own("queue"), queue)
        stage.wait_for("five workers run", lambda: grower.running("small") == 5, 60)
        stage.expect(requests() == [4], f"one request for 4 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


def _quota(stage: Stage, cpu: str) -> list[Obj]:
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1000Gi"}]
    flavor = {"name": stage.own("cpu"), "resources": quotas}
    return [{"coveredResources": ["cpu", "memory"], "flavors": [flavor]}]


@scenario("node-dies-worker-replaced")
def node_dies(stage: Stage) -> None:
    """A lost worker comes back without a request, and without a booking's name on it."""
    grower = start(stage, elastic_group("small", 2), running={"small": 2})
    requests = asked(stage)
    lost = grower.pods("small")[0]
    stage.delete(POD, lost.meta.name)
    stage.wait_for(
        "another one runs in its place",
        lambda: grower.running("small") == 2 and lost.meta.uid not in _uids(grower),
        60,
    )
    stage.expect(not requests(), f"nothing may be asked for, found {requests()}")
    stage.expect(
        not any(
            p.booking
            for p in grower.pods("small")
            if p.meta.uid != lost.meta.uid
            and p.meta.created_at_s == max(q.meta.created_at_s or 0 for q in grower.pods("small"))
        ),
        "the new pod must not name an old booking",
    )


def _uids(grower: Grower) -> set[str]:
    return {p.meta.uid for p in grower.pods()}


@scenario("head-and-worker-replaced-while-growing")
def replaced_while_growing(stage: Stage) -> None:
    """Lost pods do not wait behind a growth that waits; the new ones stay held by our gate."""
    grower = start(stage, elastic_group("small", 2), running={"small": 2})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    grower.wish(small=9)
    stage.wait_for("seven are asked for", lambda: _asked_now(stage) == [7], 20)
    lost = [grower.pods("headgroup")[0], grower.pods("small")[0]]
    for pod in lost:
        stage.delete(POD, pod.meta.name)
    gone = {p.meta.uid for p in lost}
    stage.wait_for(
        "head and worker are back",
        lambda: (
            not gone & _uids(grower)
            and grower.running("headgroup") == 1
            and grower.running("small") == 2
        ),
        60,
    )
    stage.expect(len(grower.gated("small")) == 7, "the seven new ones are still held")
    stage.pools(stage.pool(max_=5))
    stage.wait_for("nine run", lambda: grower.running("small") == 9, 60)
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("multi-host-replicas")
def multi_host(stage: Stage) -> None:
    """A replica of two hosts counts as two pods, and a limit in replicas."""
    group = elastic_group("pair", 1, hosts=2)
    grower = start(stage, group, running={"pair": 2}, deadline=4)
    requests = asked(stage)
    grower.wish(pair=2)
    stage.wait_for("four pods run", lambda: grower.running("pair") == 4, 60)
    stage.expect(requests() == [2], f"one request for the 2 pods of a replica, found {requests()}")
    stage.wait_for("nothing is left of it", grower.is_settled, 20)
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(pair=6)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 40)
        stage.expect(_most(grower) == 2, f"to 2 replicas, found {_most(grower)}")
        grower.withdraw()
        stage.wait_for("the slice is what it was", grower.is_settled, 40)


@scenario("autoscaler-killed-while-growing")
def autoscaler_dead(stage: Stage) -> None:
    """Nobody withdraws a refused wish: after the grace time the controller does, in one patch."""
    grower = start(
        stage,
        elastic_group("small", 1),
        running={"small": 1},
        deadline=3,
        cooldown={"baseSeconds": 60, "maxSeconds": 60},
    )
    stage.pools(stage.pool(max_=len(stage.nodes())))
    with same_pods(grower):
        grower.wish(small=8)
        stage.wait_for("maxReplicas is lowered", grower.needs_withdrawal, 30)
        stage.wait_for("the controller withdraws", lambda: not grower.needs_withdrawal(), 60)
        stage.wait_for("it says so", lambda: stage.events("GrowthWithdrawn"), 10)
        stage.wait_for("the slice is what it was", grower.is_settled, 30)
        stage.expect(_count(grower) == 1, "one worker, as before")


@scenario("controller-down-while-growing")
def controller_down(stage: Stage) -> None:
    """Without the controller a growth waits and nothing is hurt; with it, it goes on."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    requests = asked(stage)
    with same_pods(grower):
        with stage.controller_down():
            grower.wish(small=4)
            stage.wait_for("the new slice waits", lambda: len(grower.gated("small")) == 3, 20)
            stage.never("a new worker starts", lambda: grower.running("small") > 1, 4)
        stage.wait_for("four workers run", lambda: grower.running("small") == 4, 60)
        stage.expect(requests() == [3], f"one request for 3 pods, found {requests()}")
        stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("preempted-while-growing")
def preempted(stage: Stage) -> None:
    """A cluster that loses its quota while it grows lets go of everything, and comes back."""
    grower = start(stage, elastic_group("small", 1), running={"small": 1})
    stage.pools(stage.pool(max_=len(stage.nodes())))
    grower.wish(small=4)
    stage.wait_for("three are asked for", lambda: _asked_now(stage) == [3], 20)
    hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
    stage.api.patch(CLUSTER_QUEUE, stage.own("queue"), hold)
    stage.wait_for("no pod is left", lambda: not grower.pods(), 60)
    stage.wait_for("no request is left", stage.nothing_of_ours, 15)
    stage.pools(stage.pool(max_=5))
    stage.api.patch(CLUSTER_QUEUE, stage.own("queue"), {"spec": {"stopPolicy": "None"}})
    stage.wait_for(
        "it runs again, at the size it asks for", lambda: grower.running("small") == 4, 90
    )
    stage.wait_for("nothing is left of it", grower.is_settled, 20)


@scenario("fake-100-workers")
def hundred(stage: Stage) -> None:
    """A hundred workers in one growth: how long from Kueue's last gate to ours."""
    stage.policy(growth={"deadline": 120})
    stage.queues([("cpu", {"cpu": "200"})])
    stage.pools(stage.pool(max_=60))
    grower = begin(stage, elastic_group("small", 0, most=200, cpu="100m"), running={})
    grower.wish(small=100)
    mark = stage.record.mark()
    stage.wait_for(
        "no pod is held",
        lambda: len(grower.pods("small")) == 100 and not grower.gated("small"),
        120,
    )
    kueues, ours = _last_gates(stage, mark)
    stage.figures["kueue_last_gate_to_ours_s"] = round(ours - kueues, 3)
    stage.expect(ours - kueues <= 2.0, f"{ours - kueues:.1f} s from Kueue's last gate to ours")
    stage.wait_for("nothing is left of it", grower.is_settled, 60)


def _last_gates(stage: Stage, mark: int) -> tuple[float, float]:
    last = {names.ELASTIC: 0.0, names.GATE: 0.0}
    for seen in stage.record.since(mark):
        if seen.kind != POD or seen.obj is None or seen.before is None:
            continue
        lost = set(parse_pod(seen.before).gates) - set(parse_pod(seen.obj).gates)
        for gate in lost & set(last):
            last[gate] = seen.at_s
    return last[names.ELASTIC], last[names.GATE]
