"""Who counts as what: running, waiting, lost, new; and which pods are named when some must go."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.growth import limits
from controllers.growth.tally import GroupTally, counts_of, free_of, tally
from taugrid_ray import names
from taugrid_ray.growth_limits import Change
from taugrid_ray.growth_memory import Clamp, GroupMemory, GrowthMemory, Limits
from taugrid_ray.kinds.meta import format_time
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.raycluster import parse_raycluster
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.kinds.workload import parse_workload
from tests.controllers.builders import NOW_S, booked, consumed, expired, revoked
from tests.growth.builders import Cluster, Group, counts, worker

HELD = Clamp(Limits(10, 0), Limits(1, 0), NOW_S, NOW_S + 10, "ProvisioningFailed", "no")


def tallied(cluster: Cluster) -> tuple[GroupTally, ...]:
    seen = cluster.seen_now()
    assert seen.cluster is not None
    assert seen.current is not None
    return tally(seen, seen.cluster, seen.current, cluster.memory or GrowthMemory())


def numbers(cluster: Cluster) -> dict[str, int]:
    (t,) = tallied(cluster)
    return {
        "wanted": t.wanted,
        "running": t.running,
        "gated": len(t.gated),
        "lost": t.replacements,
        "booked": t.booked,
        "delta": t.delta,
        "floor": t.floor_replicas,
    }


def admitted(pods: int, **more: Any) -> GrowthMemory:
    return GrowthMemory({"small": GroupMemory(admitted=pods, **more)})


def wish(**group: Any) -> Cluster:
    values: dict[str, Any] = {"replicas": 4, "running": 1, "gated": 3, **group}
    return Cluster(groups=(Group(**values),), memory=admitted(1))


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        pytest.param(wish(), {"running": 1, "gated": 3, "delta": 3, "floor": 1}, id="a wish"),
        pytest.param(
            wish(running=0).but(more_pods=(worker("p", "small", phase="Pending"),)),
            {"running": 1, "delta": 3},
            id="a pod without our gate runs, bound or not",
        ),
        pytest.param(
            wish(running=0).but(more_pods=(worker("p", "small", node="n", phase="Failed"),)),
            {"running": 0, "lost": 1, "delta": 3},
            id="one that failed is lost",
        ),
        pytest.param(
            wish(running=0).but(more_pods=(worker("p", "small", node="n", phase="Succeeded"),)),
            {"running": 0, "lost": 1, "delta": 3},
            id="so is one that ended well",
        ),
        pytest.param(
            wish(running=0).but(
                more_pods=(
                    worker("p", "small", node="n", meta={"deletionTimestamp": format_time(NOW_S)}),
                )
            ),
            {"running": 0, "lost": 1, "delta": 3},
            id="and one that is being deleted",
        ),
        pytest.param(
            wish().but(memory=admitted(2)),
            {"lost": 1, "delta": 2, "floor": 2},
            id="one of what was admitted is missing",
        ),
        pytest.param(
            wish().but(memory=admitted(9)),
            {"lost": 3, "delta": 0},
            id="lost are no more than are wanted",
        ),
        pytest.param(
            wish(count=1), {"wanted": 1, "delta": 0}, id="the slice has not followed the wish yet"
        ),
        pytest.param(
            wish(replicas=1, count=4), {"wanted": 1, "delta": 0}, id="nor the other way round"
        ),
        pytest.param(
            wish(running=3, gated=0, replicas=1, count=1),
            {"running": 3, "lost": 0, "delta": 0},
            id="more run than are wanted",
        ),
        pytest.param(
            wish(replicas=3, running=2, gated=4, hosts=2).but(memory=admitted(2)),
            {"wanted": 6, "delta": 4, "floor": 1},
            id="hosts are pods",
        ),
        pytest.param(
            wish(replicas=3, running=1, gated=5, hosts=2).but(memory=admitted(2)),
            {"lost": 1, "delta": 4, "floor": 1},
            id="one host of a replica is lost",
        ),
        pytest.param(
            wish(replicas=3, running=3, gated=3, hosts=2).but(memory=admitted(2)),
            {"delta": 3, "floor": 2},
            id="half a replica counts as one",
        ),
        pytest.param(
            wish(replicas=8, most=4, count=8, gated=3),
            {"wanted": 4, "delta": 3},
            id="what KubeRay does not make is not asked for",
        ),
        pytest.param(
            wish(replicas=8, most=4, count=8, gated=5),
            {"wanted": 6, "delta": 5},
            id="but what it has made already is",
        ),
        pytest.param(
            wish(most=1, gated=0).but(memory=admitted(1, clamp=HELD)),
            {"wanted": 4, "delta": 3},
            id="while we hold the limit the wish stands",
        ),
    ],
)
def test_counts(cluster: Cluster, want: dict[str, int]) -> None:
    found = numbers(cluster)
    assert {key: found[key] for key in want} == want


def test_a_suspended_group_wants_nothing() -> None:
    """KubeRay makes none of its pods, whatever `replicas` says."""
    cluster = wish(running=0, gated=0)
    obj = cluster.cluster()
    obj["spec"]["workerGroupSpecs"][0]["suspend"] = True
    seen = cluster.looks(cluster=parse_raycluster(obj)).but(memory=GrowthMemory())
    assert counts(seen.decides()) == []
    found = seen.seen_now()
    assert found.cluster is not None
    assert found.current is not None
    (t,) = tally(found, found.cluster, found.current, GrowthMemory())
    assert (t.wanted, t.delta) == (0, 0)


def test_pods_of_other_groups_and_the_head_do_not_count() -> None:
    small, big = tallied(
        Cluster(groups=(Group(replicas=2, gated=1), Group("big", replicas=3, running=2, gated=1)))
    )
    assert (small.running, len(small.gated)) == (1, 1)
    assert (big.running, len(big.gated)) == (2, 1)


def test_waiting_pods_are_ordered_by_age() -> None:
    pods = [
        worker(name, "small", gates=[names.GATE], meta={"creationTimestamp": format_time(at_s)})
        for name, at_s in (("b", NOW_S), ("c", NOW_S - 5), ("a", NOW_S))
    ]
    (t,) = tallied(wish(gated=0).but(more_pods=tuple(pods)))
    assert [p.meta.name for p in t.gated] == ["c", "a", "b"]


def request(*answers: Obj, counts: Any = '{"small": 3}', name: str = "r") -> Obj:
    notes = {} if counts is None else {names.COUNTS: counts}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "annotations": notes},
        "status": {"conditions": list(answers)},
    }


@pytest.mark.parametrize(
    ("requests", "pods", "want"),
    [
        pytest.param((request(booked()),), (), 3, id="none is given yet"),
        pytest.param((request(booked()),), ("r",), 2, id="one is"),
        pytest.param((request(booked()),), ("another",), 3, id="of another booking"),
        pytest.param((request(),), (), 0, id="no answer is no booking"),
        pytest.param((request(booked(), expired()),), (), 0, id="nor one that ran out"),
        pytest.param((request(booked(), consumed()),), (), 0, id="nor one that is used up"),
        pytest.param((request(booked(), revoked()),), (), 0, id="nor one taken back"),
        pytest.param((request(booked(), counts='{"small": 9}'),), (), 3, id="no more than new"),
        pytest.param(
            (
                request(booked(), counts='{"small": 1}', name="a"),
                request(booked(), counts='{"small": 1}', name="b"),
            ),
            (),
            2,
            id="two add up",
        ),
        pytest.param((request(booked(), counts='{"other": 3}'),), (), 0, id="of another group"),
        pytest.param((request(booked(), counts=None),), (), 0, id="without counts"),
        pytest.param((request(booked(), counts="{"),), (), 0, id="odd counts"),
        pytest.param((request(booked(), counts='["small"]'),), (), 0, id="a list"),
        pytest.param((request(booked(), counts='{"small": "x"}'),), (), 0, id="no number"),
    ],
)
def test_booked(requests: tuple[Obj, ...], pods: tuple[str, ...], want: int) -> None:
    given = tuple(worker(f"g{i}", "big", booking=b, labels={names.POD_SET: "small"})
                  for i, b in enumerate(pods))  # fmt: skip
    cluster = wish().but(requests=requests, more_pods=given)
    assert numbers(cluster)["booked"] == want
    assert numbers(cluster)["delta"] == 3 - want


def test_more_given_than_booked_is_none_left() -> None:
    pods = tuple(worker(f"g{i}", "small", booking="r") for i in range(5))
    seen = wish().but(more_pods=pods).seen_now()
    assert free_of(seen, parse_provisioning_request(request(booked()))) == {}
    assert counts_of(parse_provisioning_request(request(counts=None))) == {}


@pytest.mark.parametrize(
    ("before", "want"),
    [
        pytest.param(3, {"lost": 2, "delta": 0}, id="lost: the slice never was smaller"),
        pytest.param(1, {"lost": 0, "delta": 2}, id="new: it had shrunk to one"),
        pytest.param(2, {"lost": 1, "delta": 1}, id="it had shrunk by one"),
    ],
)
def test_what_the_slice_before_had(before: int, want: dict[str, int]) -> None:
    old = Cluster(groups=(Group(replicas=before),)).workload()
    cluster = wish(replicas=3, gated=2).but(memory=admitted(3))
    found = numbers(cluster.looks(replaced=parse_workload(old)))
    assert {key: found[key] for key in want} == want


# Naming pods


def in_replica(pod: str, replica: str, *, gated: bool = True, at_s: float = NOW_S) -> Obj:
    gates = [names.GATE] if gated else []
    node = "" if gated else "n"
    meta = {"creationTimestamp": format_time(at_s)}
    labels = {names.RAY_REPLICA: replica}
    return worker(pod, "pair", gates=gates, node=node, labels=labels, meta=meta)


def withdrawn(replicas: int, *pods: Obj, admitted_pods: int = 0) -> tuple[int, set[str]]:
    """replicas and names after all that can go has gone; two hosts each."""
    group = Group("pair", replicas=replicas, running=0, hosts=2)
    memory = GrowthMemory({"pair": GroupMemory(admitted=admitted_pods)})
    (t,) = tallied(Cluster(groups=(group,), more_pods=pods, memory=memory))
    change = limits.withdraw(Change(GrowthMemory()), t)
    (found,) = change.groups
    assert found.replicas is not None
    assert found.workers_to_delete is not None
    return found.replicas, set(found.workers_to_delete)


RUNS = (in_replica("a0", "a", gated=False), in_replica("a1", "a", gated=False))


def test_one_name_stands_for_a_whole_replica() -> None:
    waiting = (in_replica("b0", "b"), in_replica("b1", "b"))
    replicas, deleted = withdrawn(2, *RUNS, *waiting, admitted_pods=2)
    assert replicas == 1
    assert len(deleted) == 1
    assert deleted < {"b0", "b1"}


def test_hosts_that_were_made_in_turn_are_not_torn_apart() -> None:
    """Of two waiting replicas one must go: two names, one of each, would take both."""
    waiting = [in_replica(f"{r}{h}", r, at_s=NOW_S + h) for h in (0, 1) for r in ("b", "c")]
    one_lost = (in_replica("a0", "a", gated=False), in_replica("a1", "a", gated=False))
    replicas, deleted = withdrawn(3, *one_lost, *waiting, admitted_pods=4)
    assert replicas == 2
    assert len(deleted) == 1
    assert deleted < {"c0", "c1"}


def test_a_replica_of_which_something_runs_is_never_named() -> None:
    """A lost host's successor waits in the replica whose other host runs."""
    half = (in_replica("a0", "a", gated=False), in_replica("a1", "a", at_s=NOW_S + 9))
    waiting = (in_replica("b0", "b"), in_replica("b1", "b"))
    replicas, deleted = withdrawn(2, *half, *waiting, admitted_pods=2)
    assert replicas == 1
    assert deleted < {"b0", "b1"}


def test_without_replica_names_each_pod_is_named() -> None:
    run = [worker(f"a{i}", "pair", node="n") for i in (0, 1)]
    wait = [worker(f"b{i}", "pair", gates=[names.GATE]) for i in (0, 1)]
    assert withdrawn(2, *run, *wait, admitted_pods=2) == (1, {"b0", "b1"})


def test_names_that_the_autoscaler_wrote_stay() -> None:
    cluster = wish()
    obj = cluster.cluster()
    obj["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": ["theirs"]}
    (t,) = tallied(cluster.looks(cluster=parse_raycluster(obj)))
    (found,) = limits.withdraw(Change(GrowthMemory()), t).groups
    assert found.workers_to_delete == ("small-wait-0", "small-wait-1", "small-wait-2", "theirs")


@pytest.mark.parametrize(
    "group",
    [
        pytest.param({"least": 4}, id="not below the minimum"),
        pytest.param({"running": 4, "gated": 0}, id="nothing waits"),
    ],
)
def test_nothing_to_withdraw(group: dict[str, Any]) -> None:
    (t,) = tallied(wish(**group))
    assert limits.withdraw(Change(GrowthMemory()), t).groups == ()
