"""deploy/rbac.yaml grants what the code calls, and nothing more.

What is called is not listed here by hand: a controller is made to do everything it can do, on the
pretend API server that writes down every call, and the result is compared with the manifest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from controllers import actions
from controllers.actions import (
    Action,
    Announce,
    Create,
    Delete,
    Forget,
    GroupChange,
    Park,
    PodRelease,
    Release,
    SetCheck,
    SetCondition,
    SetGroups,
    Target,
    Unpark,
    Unstamp,
)
from controllers.lease import Elector
from controllers.perform import perform
from controllers.world import SOURCES
from taugrid_ray.errors import TaugridError
from taugrid_ray.growth_memory import GrowthMemory
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.meta import OwnerRef
from taugrid_ray.kinds.workload import CheckState
from taugrid_ray.memory import FRESH
from taugrid_ray.reasons import Reason
from tests.fake_kube import Call, FakeKube, ManualClock
from tests.sim.controller import Controller, FlakyApi

RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
Right = tuple[str, str, str]
"""(group, resource or resource/subresource, verb)"""

AT = Target("team", "x", "uid", "1")
ONE_OF_EACH: tuple[Action, ...] = (
    Create(kinds.PROVISIONING_REQUEST, {"metadata": {"name": "x", "namespace": "team"}}),
    Create(kinds.POD_TEMPLATE, {"metadata": {"name": "x", "namespace": "team"}}),
    Delete(kinds.PROVISIONING_REQUEST, AT),
    Delete(kinds.POD_TEMPLATE, AT),
    SetCheck(AT, 0, "c", CheckState.READY, Reason.CAPACITY_PROVISIONED, "", 0.0),
    Park(AT, FRESH),
    Unpark(AT, FRESH),
    Forget(AT),
    Unstamp(AT),
    Release((PodRelease(AT, 0, True, "uid"),)),
    SetGroups(AT, (GroupChange(0, "g", max_replicas=1),), GrowthMemory(), had_notes=True),
    SetCondition(kinds.ADMISSION_CHECK, AT, "Active", True, "r", "m", 1, 0.0),
    SetCondition(kinds.CAPACITY_POLICY, AT, "Ready", True, "r", "m", 1, 0.0),
    Announce(OwnerRef("v1", "Pod", "x", "u"), "team", Reason.RESUMED, "n", False, "k", 0.0),
)


def rules(kind: str, name: str) -> list[Any]:
    found = [
        doc
        for doc in yaml.safe_load_all(RBAC.read_text(encoding="utf-8"))
        if (doc["kind"], doc["metadata"]["name"]) == (kind, name)
    ]
    assert len(found) == 1
    return list(found[0]["rules"])


def granted(some_rules: list[Any]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in some_rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Ledger:
    """Which rights the calls needed."""

    def __init__(self, kube: FakeKube) -> None:
        self.used: set[Right] = set()
        kube.on_call = self._note

    def _note(self, call: Call) -> None:
        verb = {"replace": "update", "apply": "patch"}.get(call.verb, call.verb)
        resource = f"{call.kind.plural}/{call.sub}" if call.sub else call.kind.plural
        self.used.add((call.kind.group, resource, verb))


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube(ManualClock())


def _objects(action: Action) -> Iterator[tuple[kinds.Resource, Any]]:
    """What an action's name may collide with: somebody else's object."""
    if isinstance(action, Create | Delete | SetCondition):
        body = {
            "apiVersion": action.kind.api_version,
            "kind": action.kind.kind,
            "metadata": {"name": "x"},
            "spec": {"podSets": [{"count": 1}]},
        }
        yield action.kind, body


def test_one_of_each_action_is_tried() -> None:
    assert {type(a) for a in ONE_OF_EACH} == set(get_args(actions.Action))


def test_the_controller_has_just_the_rights_it_uses(kube: FakeKube) -> None:
    ledger = Ledger(kube)
    rng = random.Random(0)
    Controller(FlakyApi(kube, rng, 0.0), ManualClock(), rng).step()
    for action in ONE_OF_EACH:
        attempt(kube, action)
    used = ledger.used
    assert used >= {(s.kind.group, s.kind.plural, v) for s in SOURCES for v in ("list", "watch")}
    allowed = granted(rules("ClusterRole", "taugrid-ray-controller"))
    assert used - allowed == set(), "used, but not granted in deploy/rbac.yaml"
    # `get` on what is watched is granted too: whoever may list may read, and people debug with it.
    watched = {(group, name, "get") for group, name, verb in allowed if verb == "watch"}
    assert allowed - used - watched == set(), "granted in deploy/rbac.yaml, but never used"


def attempt(kube: FakeKube, action: Action) -> None:
    """With and without an object of that name: the calls differ. Only the action's own count."""
    listening = kube.on_call
    for prepare in (False, True):
        if prepare:
            kube.on_call = None
            for kind, body in _objects(action):
                try:
                    kube.create(kind, body, "team")
                except TaugridError:
                    continue
            kube.on_call = listening
        try:
            perform(action, kube, identity="test")
        except TaugridError:
            continue


def test_leading_has_just_the_rights_it_uses(kube: FakeKube) -> None:
    ledger = Ledger(kube)
    clock = ManualClock()
    elector = Elector(kube, clock, me="a", namespace="taugrid-ray")
    for _ in range(3):
        elector.step()
        clock.advance(4.0)
    elector.release()
    some_rules = rules("Role", "taugrid-ray-leader")
    assert ledger.used == granted(some_rules)
    for rule in some_rules:
        # A create cannot be limited to a name; everything else is.
        assert ("create" in rule["verbs"]) != (rule.get("resourceNames") == ["taugrid-ray"])


def test_no_wildcards() -> None:
    for doc in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")):
        for rule in doc.get("rules", ()):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
