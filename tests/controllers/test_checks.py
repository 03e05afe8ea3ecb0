"""AdmissionChecks and CapacityPolicies: usable or not, in one sentence, said once."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.checks.decide import decide_check, decide_policy
from controllers.world import World, parse_seen_policy
from taugrid_ray import names
from taugrid_ray.kinds.queues import parse_admission_check
from taugrid_ray.kinds.resource import ADMISSION_CHECK, CAPACITY_POLICY, Obj
from tests.controllers.builders import NOW_S, shown
from tests.controllers.cluster import obj


def world(*policies: Obj) -> World:
    found = World()
    for policy in policies:
        meta = {"uid": "u", "resourceVersion": "3", **policy["metadata"]}
        found.stores[CAPACITY_POLICY].accept({**policy, "metadata": meta})
    return found


def check(controller: str = names.CONTROLLER, **parameters: str) -> Any:
    full = {"apiGroup": "taugrid.io", "kind": "CapacityPolicy", "name": "policy", **parameters}
    spec = {"controllerName": controller, "parameters": full}
    return parse_admission_check(obj(ADMISSION_CHECK, "capacity", spec))


GOOD = obj(CAPACITY_POLICY, "policy", {})
BAD = obj(CAPACITY_POLICY, "policy", {"deadlines": {"provision": 99_999_999}})


@pytest.mark.parametrize(
    ("found", "policies", "want"),
    [
        pytest.param(check(), [GOOD], ["condition Active=True Active"], id="usable"),
        pytest.param(check(), [], ["condition Active=False PolicyInvalid"], id="no such policy"),
        pytest.param(check(), [BAD], ["condition Active=False PolicyInvalid"], id="invalid policy"),
        pytest.param(
            check(kind="Other"), [GOOD], ["condition Active=False PolicyInvalid"], id="another kind"
        ),
        pytest.param(
            check(apiGroup="x.io"), [GOOD], ["condition Active=False PolicyInvalid"], id="a group"
        ),
        pytest.param(check(names.BUILTIN_CONTROLLER), [], [], id="not ours"),
        pytest.param(None, [], [], id="gone"),
    ],
)
def test_checks(found: Any, policies: list[Obj], want: list[str]) -> None:
    assert shown(decide_check(found, world(*policies), NOW_S).actions) == want


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param(GOOD, ["condition Ready=True Valid"], id="valid"),
        pytest.param(BAD, ["condition Ready=False PolicyInvalid"], id="invalid"),
    ],
)
def test_policies(policy: Obj, want: list[str]) -> None:
    assert shown(decide_policy(parse_seen_policy(policy), NOW_S).actions) == want
    assert decide_policy(None, NOW_S).actions == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"backof": {}}, "spec.backof is not a field; did you mean backoff?"),
        ({"deadlines": {"nodez": 1}}, "spec.deadlines.nodez is not a field; did you mean nodes?"),
        ({"steps": []}, "spec.steps"),
        ({"steps": [{"attempts": 0}]}, "spec.steps.0.attempts"),
        ({"deadlines": {"provision": 100, "maxProvision": 10}}, "raise maxProvision"),
        ({"onGiveUp": "Cry"}, "'Park' or 'Reject'"),
        ({"steps": [{"provisioningClassName": "No Spaces"}]}, "provisioningClassName"),
        (["a list"], "spec"),
    ],
)
def test_an_invalid_policy_says_what_is_wrong(spec: Any, words: str) -> None:
    seen = parse_seen_policy(obj(CAPACITY_POLICY, "gold", spec))
    assert seen.spec is None
    assert 'CapacityPolicy "gold"' in seen.fault
    assert words in seen.fault


def test_the_same_is_not_said_twice() -> None:
    (action,) = decide_check(check(), world(GOOD), NOW_S).actions
    said = {
        "type": action.type,
        "status": "True",
        "reason": action.reason,
        "message": action.message,
    }
    full = {"apiGroup": "taugrid.io", "kind": "CapacityPolicy", "name": "policy"}
    spec = {"controllerName": names.CONTROLLER, "parameters": full}
    again = {**obj(ADMISSION_CHECK, "capacity", spec), "status": {"conditions": [said]}}
    assert decide_check(parse_admission_check(again), world(GOOD), NOW_S + 9).actions == ()


def test_a_check_that_goes_is_left_alone() -> None:
    going = obj(ADMISSION_CHECK, "c", {"controllerName": names.CONTROLLER})
    going["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    assert decide_check(parse_admission_check(going), world(), NOW_S).actions == ()
