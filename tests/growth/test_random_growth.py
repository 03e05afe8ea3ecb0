"""A Ray cluster driven at random: wishes, refusals, bookings that run out, pods that die, an admin,
an autoscaler that hangs, a controller that dies in the middle of what it does.

The real decision acts on a small model of Kueue, KubeRay and the Ray autoscaler. After every step:
nothing that runs is touched, no more is asked for or booked than is wanted, and no new worker
starts without a booking. At the end, with room and time, everything is given back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controllers.actions import (
    Action,
    Announce,
    Create,
    Delete,
    Release,
    SetCheck,
    SetGroups,
    Unstamp,
)
from taugrid_ray import names
from taugrid_ray.growth_memory import GrowthMemory
from taugrid_ray.kinds.resource import PROVISIONING_REQUEST, Obj
from taugrid_ray.kinds.workload import CheckState, parse_workload
from tests.controllers.builders import NOW_S, booked, expired, failed, no_room, with_uid
from tests.growth.builders import Cluster, Group, head, worker

MOST = 8


@dataclass
class Worker:
    name: str
    kueue_holds: bool = True
    we_hold: bool = True
    booking: str = ""
    node: str = ""

    def pod(self) -> Obj:
        gates = [names.GATE] * self.we_hold + [names.ELASTIC] * self.kueue_holds
        return worker(
            self.name,
            "small",
            gates=gates,
            booking=self.booking,
            node=self.node,
            phase="Running" if self.node else "Pending",
        )


class Growing(RuleBasedStateMachine):
    @initialize()
    def starts(self) -> None:
        self.now_s = NOW_S
        self.made = 0
        self.replicas, self.most, self.edited = 1, MOST, False
        self.count, self.admitted, self.check, self.message = 1, True, "Ready", ""
        self.slices = 1
        self.memory: GrowthMemory | None = None
        self.workers = [Worker("first", kueue_holds=False, we_hold=False, node="n")]
        self.started = 1
        """How many workers at most were ever admitted and started, less what was given up."""
        self.requests: dict[str, Obj] = {}
        self.templates: dict[str, Obj] = {}
        self.act()

    # What the controller sees and does

    def seen(self) -> Any:
        cluster = Cluster(
            groups=(
                Group(replicas=self.replicas, count=self.count, running=0, gated=0, most=self.most),
            ),
            memory=self.memory,
            check=self.check,
            message=self.message,
            admitted=self.admitted,
            has_head=False,
            more_pods=(head(), *(w.pod() for w in self.workers)),
            requests=tuple(self.requests.values()),
            templates=tuple(self.templates.values()),
        )
        workload = cluster.workload()
        workload["metadata"]["uid"] = f"slice-{self.slices}"
        return cluster.looks(current=parse_workload(workload))

    def act(self, at_most: int = 99) -> int:
        self.note_started()
        actions = [
            a for a in self.seen().decides(self.now_s).actions if not isinstance(a, Announce)
        ]
        for action in actions[:at_most]:
            self.perform(action)
        return len(actions)

    def perform(self, action: Action) -> None:
        match action:
            case Create(kind, obj):
                meta = obj["metadata"]
                place = self.requests if kind == PROVISIONING_REQUEST else self.templates
                if kind == PROVISIONING_REQUEST and meta["name"] not in place:
                    self.judge_asking(obj)
                place.setdefault(meta["name"], {**with_uid(obj, self.now_s), "status": {}})
            case Delete(kind, at):
                (self.requests if kind == PROVISIONING_REQUEST else self.templates).pop(at.name)
            case SetCheck():
                assert action.state in (CheckState.PENDING, CheckState.READY), "R1"
                self.check, self.message = action.state.value, action.message
            case Release(pods):
                for release in pods:
                    found = self.named(release.pod.name)
                    assert found.we_hold
                    assert not found.kueue_holds
                    found.we_hold, found.booking = False, release.booking
                    if not release.booking:
                        live = sum(1 for w in self.workers if not w.we_hold)
                        assert live <= self.started, "a new worker started without a booking"
            case Unstamp(at):
                self.named(at.name).booking = ""
            case SetGroups(_, groups, memory):
                for change in groups:
                    self.set_group(change)
                self.memory = memory
            case _:
                raise AssertionError(f"R1: {action}")

    def set_group(self, change: Any) -> None:
        if change.max_replicas is not None:
            self.most = change.max_replicas
        if change.replicas is not None:
            self.replicas = change.replicas
        for name in change.workers_to_delete or ():
            assert self.named(name).we_hold, "R1: a worker that may run was named for deletion"
            self.workers.remove(self.named(name))

    def judge_asking(self, obj: Obj) -> None:
        asked = json.loads(obj["metadata"]["annotations"][names.COUNTS])["small"]
        free = sum(self.free(r) for r in self.requests.values() if self.is_booked(r))
        running = sum(1 for w in self.workers if not w.we_hold)
        wanted = min(self.count, self.replicas)
        assert asked <= wanted - running - free, f"R5: {asked} asked, {wanted} wanted, {free} free"

    def named(self, name: str) -> Worker:
        return next(w for w in self.workers if w.name == name)

    @staticmethod
    def is_booked(request: Obj) -> bool:
        told = [c["type"] for c in request["status"].get("conditions", ()) if c["status"] == "True"]
        return told == ["Provisioned"]

    def free(self, request: Obj) -> int:
        name = request["metadata"]["name"]
        counts = json.loads(request["metadata"]["annotations"][names.COUNTS])
        return int(counts["small"]) - sum(1 for w in self.workers if w.booking == name)

    # The others

    def settle_others(self) -> None:
        """KubeRay makes pods, Kueue follows with its slice and takes its gates off."""
        while len(self.workers) < min(self.replicas, self.most) or (
            len(self.workers) < self.replicas and self.replicas > self.most
        ):
            self.made += 1
            self.workers.append(Worker(f"w{self.made}"))
        if self.replicas > self.count:
            self.count, self.admitted, self.check, self.message = (
                self.replicas,
                False,
                "Pending",
                "",
            )
            self.slices += 1
        elif self.replicas < self.count:
            self.count = self.replicas
            self.started = min(self.started, self.count)
        if self.check == "Ready":
            self.admitted = True
            loose = sum(1 for w in self.workers if not w.kueue_holds)
            for found in [w for w in self.workers if w.kueue_holds][: max(0, self.count - loose)]:
                found.kueue_holds = False
        for found in self.workers:
            if not found.we_hold and not found.kueue_holds:
                found.node = found.node or "n"
        self.note_started()

    def note_started(self) -> None:
        """All that is admitted runs: from now on a missing one is a lost one."""
        if not any(w.we_hold for w in self.workers) and len(self.workers) >= self.count:
            self.started = max(self.started, self.count)

    @rule(replicas=st.integers(1, MOST))
    def wish(self, replicas: int) -> None:
        if self.replicas < replicas <= self.most:
            self.replicas = replicas

    @rule()
    def idle(self) -> None:
        """A worker that runs is terminated by the autoscaler."""
        running = [w for w in self.workers if w.node]
        if len(running) > 1 and self.replicas == len(self.workers):
            self.workers.remove(running[-1])
            self.replicas -= 1

    @rule()
    def withdraw(self) -> None:
        """The autoscaler sees a limit below what there is."""
        surplus = self.replicas - self.most
        waiting = [w for w in self.workers if w.we_hold]
        if surplus > 0:
            for found in waiting[:surplus]:
                self.workers.remove(found)
            self.replicas = self.most

    @rule(place=st.integers(0, 20))
    def dies(self, place: int) -> None:
        if self.workers:
            self.workers.pop(place % len(self.workers))

    @rule(answer=st.sampled_from([booked, no_room, failed, expired]), place=st.integers(0, 5))
    def answers(self, answer: Any, place: int) -> None:
        if not self.requests:
            return
        request = list(self.requests.values())[place % len(self.requests)]
        there = request["status"].get("conditions", [])
        if answer is expired:
            if self.is_booked(request):
                request["status"] = {"conditions": [*there, expired(self.now_s)]}
        elif not any(c["status"] == "True" for c in there):
            request["status"] = {"conditions": [answer(self.now_s)]}

    @rule(most=st.integers(2, MOST))
    def admin(self, most: int) -> None:
        if most >= self.replicas:
            self.most, self.edited = most, True

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, 90.0]))
    def waits(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def others(self) -> None:
        self.settle_others()

    @rule(at_most=st.integers(0, 3))
    def controller_dies_midway(self, at_most: int) -> None:
        self.act(at_most)

    @rule()
    def controller(self) -> None:
        self.act()

    @invariant()
    def one_wish_at_a_time(self) -> None:
        waiting = {
            r["metadata"]["annotations"][names.RESERVATION]
            for r in self.requests.values()
            if not any(c["status"] == "True" for c in r["status"].get("conditions", ()))
        }
        # The one of a slice that was replaced goes with the next look.
        assert len(waiting) <= 2

    def teardown(self) -> None:
        """Room for all, and time: everything comes to rest and is given back."""
        for _ in range(60):
            for request in self.requests.values():
                if not any(c["status"] == "True" for c in request["status"].get("conditions", ())):
                    request["status"] = {"conditions": [booked(self.now_s)]}
            self.settle_others()
            self.withdraw()
            busy = self.act()
            self.now_s += 5.0
            if not busy and self.replicas == self.count == len(self.workers):
                held = self.memory and any(g.clamp for g in self.memory.groups.values())
                if not held and not any(w.we_hold for w in self.workers):
                    break
        else:
            raise AssertionError(f"it does not come to rest: {vars(self)}")
        assert not self.requests
        assert not self.templates
        assert self.edited or self.most == MOST, "R6"
        assert self.act() == 0, "at rest nothing is written"


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
