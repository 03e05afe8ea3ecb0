"""Each recording of the real autoscaler, replayed through the pure core.

What is compared: the sequence of different condition sets (type, status, reason, message), from
the moment that the request exists until two minutes later, in which the stand-in looped every
second; and the number of nodes whenever the conditions changed. What is not: seconds. The real
one takes up to its scan interval and a slow machine's time; here a loop is a second.

The start is the recording's own: as many nodes as it saw before the first condition, all in the
pool `scale`. That matters for `one-pool`, which began with two nodes there: its pods fit what
exists, hence CapacityIsFound, where `two-sets-one-pool` began with none and needed a resize,
hence CapacityIsProvisioned. One rule gives both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.pools.parse import parse_pod_shape
from tests.pools.world import World

FOLDER = Path(__file__).parents[1] / "data" / "recordings" / "cluster-autoscaler"
RECORDINGS = sorted(FOLDER.glob("*.yaml"))
WATCHED_S = 120


def _start(recording: dict[str, Any]) -> World:
    world = World()
    for number in range(recording["seen"][0]["nodes"]):
        world.add_node("scale", f"scale-{number}")
    world.loop()
    request = recording["request"]
    for template in request["templates"]:
        spec = {
            "nodeSelector": template.get("nodeSelector", {}),
            "containers": [{"resources": {"requests": template["requests"]}}],
        }
        world.template(template["name"], parse_pod_shape(spec))
    sets = [(s["count"], s["podTemplateRef"]["name"]) for s in request["podSets"]]
    parameters = {"noRetry": "true"} if recording["scenario"].endswith("no-retry") else {}
    world.ask("recorded", *sets, class_name=request["class"], **parameters)
    return world


def _conditions(world: World) -> list[dict[str, str]]:
    return [
        {"message": c.message, "reason": c.reason, "status": c.status, "type": c.type}
        for c in world.request("recorded").conditions
    ]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_replay(path: Path) -> None:
    recording = yaml.safe_load(path.read_text())
    world = _start(recording)
    seen = [{"nodes": len(world.nodes()), "conditions": _conditions(world)}]
    for _ in range(WATCHED_S):
        world.loop()
        if _conditions(world) != seen[-1]["conditions"]:
            seen.append({"nodes": len(world.nodes()), "conditions": _conditions(world)})
    want = [{"nodes": s["nodes"], "conditions": s["conditions"]} for s in recording["seen"]]
    assert seen == want


def test_all_recordings_are_here() -> None:
    assert len(RECORDINGS) == 9
