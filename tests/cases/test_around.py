"""Cases of the controller's surroundings: limits and LimitRanges (42), flavors (52), quotas near
64 bits (53), two leaders (95) and a view that lags behind (97).
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from controllers.actions import Create, SetCheck
from controllers.lease import Elector
from taugrid_ray.errors import Unreachable
from taugrid_ray.gang import load_manifests
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.queues import parse_resource_flavor
from taugrid_ray.kinds.resource import LEASE, POD_TEMPLATE, Obj
from taugrid_ray.quantity import canonical, canonical_binary, human_quota, parse
from tests.cases.folder import content
from tests.controllers.builders import NOW_S, Gang, Set, flavor, shown
from tests.fake_kube.clock import ManualClock
from tests.fake_kube.fake import FakeKube
from tests.fake_kube.faults import Call

DURATION_S = 15.0


def test_42_limits_are_asked_for_where_no_request_is_written() -> None:
    limits = {"cpu": "3", "memory": "6Gi"}
    template = {
        "spec": {
            "initContainers": [{"name": "load", "resources": {"limits": {"cpu": "1"}}}],
            "containers": [{"name": "ray", "resources": {"limits": limits}}],
        }
    }
    actions = Gang(sets=(Set(template=template),)).decides().actions
    made = [a.obj["template"] for a in actions if isinstance(a, Create) and a.kind == POD_TEMPLATE]
    assert [t["spec"]["containers"][0]["resources"]["requests"] for t in made] == [limits]
    assert [t["spec"]["initContainers"][0]["resources"]["requests"] for t in made] == [{"cpu": "1"}]


def test_52_two_flavors_that_want_one_label_are_refused_each_time_in_the_same_words() -> None:
    flavors = {
        "cpu-pool": parse_resource_flavor(flavor("cpu-pool", {"agentpool": "cpu"})),
        "gpu-pool": parse_resource_flavor(flavor("gpu-pool", {"agentpool": "gpu"})),
    }
    told = set()
    for turn in range(100):
        assigned = {"cpu": "cpu-pool", "nvidia.com/gpu": "gpu-pool"}
        if turn % 2:
            assigned = dict(reversed(assigned.items()))
        order = dict(sorted(flavors.items(), reverse=turn % 3 == 0))
        decision = _with_flavors(assigned, order)
        assert shown(decision.actions)[0] == "park gaveUp step 1 attempt 1 GangInvalid"
        assert not [a for a in decision.actions if isinstance(a, Create)]
        told |= {a.memory.message for a in decision.actions if hasattr(a, "memory")}
    assert len(told) == 1
    sentence = told.pop()
    assert '"cpu-pool" and "gpu-pool"' in sentence
    assert "agentpool" in sentence


def _with_flavors(assigned: dict[str, str], flavors: dict[str, Any]) -> Any:
    gang = Gang()
    seen = gang.seen_now()
    assert seen.workload is not None
    assignment = replace(seen.workload.assignments[0], flavors=assigned)
    workload = replace(seen.workload, assignments=(assignment,))
    return gang.looks(workload=workload, flavors=flavors).decides()


@pytest.mark.parametrize("file", ["odd/50-quota-int64-edge", "users/08-gke-dws-tpu-queue"])
def test_53_quotas_of_any_size_survive_reading_and_writing(file: str) -> None:
    written = [quota for obj in load_manifests(content(file)) for quota in _quotas(obj)]
    assert written
    for text in written:
        amount = parse(text)
        assert parse(canonical(amount)) == amount
        assert parse(canonical_binary(amount)) == amount


def _quotas(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [quota for one in value for quota in _quotas(one)]
    if not isinstance(value, dict):
        return []
    found = [value["nominalQuota"]] if "nominalQuota" in value else []
    return found + [quota for one in value.values() for quota in _quotas(one)]


def test_53_what_means_no_limit_is_exact_in_sums_and_said_in_words() -> None:
    endless, edge = parse("1000000000Gi"), parse("8Ei")
    assert (endless, edge) == (Fraction(1073741824 * 10**9), Fraction(2**63))
    assert endless + parse("1") - endless == 1
    assert human_quota("memory", endless) == "unlimited memory"
    assert parse(json.loads(json.dumps(canonical(edge)))) == edge


class Leaders:
    """Two controllers and one API server, on one clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_S)
        self.api = FakeKube(self.clock, namespaces=["system"])
        self.api.on_call = self._on_call
        self.cut_off: Elector | None = None
        """The one whose calls do not arrive."""
        self._stepping: Elector | None = None
        self.first, self.second = (
            Elector(self.api, self.clock, me=me, namespace="system", duration_s=DURATION_S)
            for me in ("first", "second")
        )

    def _on_call(self, call: Call) -> None:
        if self._stepping is not None and self._stepping is self.cut_off:
            raise Unreachable(f"{call.verb} {call.kind.kind}: no answer")

    def step(self, elector: Elector) -> None:
        self._stepping = elector
        elector.step()
        self._stepping = None

    def pass_by(self, seconds: float, *awake: Elector) -> None:
        """Time in steps of a second; those awake look at the lease each time."""
        for _ in range(int(seconds)):
            self.clock.advance(1)
            for elector in awake:
                self.step(elector)
            assert len(self.leading()) < 2

    def leading(self) -> list[str]:
        return [elector.me for elector in (self.first, self.second) if elector.leads]

    def holder(self) -> str:
        return fields.text(self.api.get(LEASE, "taugrid-ray", "system"), "spec", "holderIdentity")


def test_95_one_that_sleeps_past_its_lease_does_nothing_on_waking() -> None:
    both = Leaders()
    both.step(both.first)
    both.step(both.second)
    assert both.leading() == ["first"]
    both.pass_by(DURATION_S + 2, both.second)
    # Before it looks at anything, the sleeper knows that its time is over.
    assert both.first.lost
    assert both.leading() == ["second"]
    both.step(both.first)
    assert (both.leading(), both.holder()) == (["second"], "second")


def test_95_one_that_cannot_renew_stops_before_another_may_begin() -> None:
    both = Leaders()
    both.step(both.first)
    both.step(both.second)
    both.cut_off = both.first
    both.pass_by(10, both.first, both.second)
    assert both.first.lost
    assert both.leading() == []
    both.pass_by(7, both.first, both.second)
    assert both.leading() == ["second"]
    both.cut_off = None
    both.step(both.first)
    assert both.leading() == ["second"]


def test_95_a_controller_that_ends_hands_over_at_once() -> None:
    both = Leaders()
    both.step(both.first)
    both.first.release()
    both.step(both.second)
    assert (both.leading(), both.holder()) == (["second"], "second")


def test_95_two_that_begin_together_are_one_leader() -> None:
    both = Leaders()
    for elector in (both.second, both.first, both.second, both.first):
        both.step(elector)
    assert both.leading() == ["second"]


def test_97_deciding_again_from_an_old_view_makes_nothing_twice() -> None:
    """The stores do not show yet what was created: the same names, so the server has them once."""
    first, again = (Gang().decides(now_s).actions for now_s in (NOW_S, NOW_S + 5))
    assert _names(first) == _names(again)
    assert not [a for a in again if isinstance(a, SetCheck)]


def _names(actions: Any) -> list[tuple[str, str]]:
    bodies: list[Obj] = [a.obj for a in actions if isinstance(a, Create)]
    return [(body["kind"], body["metadata"]["name"]) for body in bodies]
