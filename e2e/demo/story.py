"""The story of one RayJob, as lines. Pure: each moment's facts in, the lines that hold now out.

A line has a key and is told once, at the first moment at which it holds; `told` has the times of
those told before, so that a line can say how long something took, and what is there no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from e2e.demo.facts import SUBMITTER, Facts
from taugrid_ray.sentences import plural, printable

WHOLE = "whole"
SUCCEEDED = "succeeded"
CLEAN = "clean"


@dataclass(frozen=True, slots=True)
class Line:
    key: str
    text: str
    more: tuple[str, ...] = ()
    """Said below it: what it means."""
    look: str = ""
    """Arguments of a kubectl that shows it."""


@dataclass(frozen=True, slots=True)
class Scene:
    namespace: str
    pool: str
    """The label of the pool's nodes."""
    quota: str
    """CPUs of the queue."""
    real: bool
    """Are the nodes process nodes, and Ray thus real?"""


@dataclass(frozen=True, slots=True)
class Told:
    """When each line was told, in seconds, and what the time is now."""

    at_s: Mapping[str, float]
    now_s: float

    def after(self, key: str) -> str:
        return f"{self.now_s - self.at_s.get(key, self.now_s):.1f} s"


def tell(facts: Facts, scene: Scene, told: Told) -> tuple[Line, ...]:
    """All lines that hold at this moment, in the order of the story."""
    return (
        *_queue(facts, scene, told),
        *_capacity(facts, scene, told),
        *_nodes(facts, scene, told),
        *_ray(facts, scene, told),
        *_program(facts, scene, told),
        *_end(facts, told),
    )


def _queue(facts: Facts, scene: Scene, told: Told) -> Iterator[Line]:
    gang = facts.gang
    if gang is None:
        return
    count = sum(n for _, n in gang.pod_sets)
    parts = ", ".join(f"{n} {name}" for name, n in gang.pod_sets)
    yield Line(
        "gang",
        f"QUEUED. Kueue sees the RayJob and counts its gang: {plural(count, 'pod')} ({parts}).",
        ("No pod exists yet: the RayJob is suspended, and Kueue decides when it starts.",),
        f"-n {scene.namespace} get workloads",
    )
    if gang.reserved:
        yield Line(
            "quota",
            f"QUOTA RESERVED, {told.after('gang')} later: {gang.cpus:g} of {scene.quota} CPUs.",
            (
                "That says `you may`, not `the nodes exist`, and there are none. Kueue alone would",
                "start the job now, and its pods would hang. Here an admission check holds it.",
            ),
            f"-n {scene.namespace} describe workload {gang.name}",
        )


def _capacity(facts: Facts, scene: Scene, told: Told) -> Iterator[Line]:
    for request in facts.requests:
        yield Line(
            "request",
            f"CAPACITY ASKED FOR. One ProvisioningRequest for all {plural(request.pods, 'pod')}.",
            ("taugrid-ray asks the cluster autoscaler for the whole gang: all of it or nothing.",),
            f"-n {scene.namespace} get provisioningrequests",
        )
        if request.booked:
            yield Line(
                "booked",
                f"BOOKED, {told.after('request')} later: there is room for all of it.",
                ("Booked is not there yet: the autoscaler has ordered nodes, which must boot.",),
                f"-n {scene.namespace} describe provisioningrequest {request.name}",
            )
    if facts.gang is not None and facts.gang.admitted:
        yield Line(
            "admitted",
            f"ADMITTED, {told.after('quota')} after the quota: quota and booking are both there.",
            (
                f"The check says: {printable(facts.gang.check_says)}.",
                "Kueue starts the job; KubeRay makes the pods of a Ray cluster, which wait for "
                "nodes.",
            ),
            f"-n {scene.namespace} get rayjobs,rayclusters,pods",
        )


def _nodes(facts: Facts, scene: Scene, told: Told) -> Iterator[Line]:
    for number, node in enumerate(facts.nodes):
        key = f"node {node.name}"
        look = "" if number else f"get nodes -l pool={scene.pool}"
        yield Line(key, f"node {node.name} is there, and boots.", (), look)
        if node.ready:
            yield Line(f"{key} ready", f"node {node.name} is Ready, {told.after(key)} later.")


def _ray(facts: Facts, scene: Scene, told: Told) -> Iterator[Line]:
    for role in ("head", "worker"):
        for number, pod in enumerate(facts.running(role)):
            show_log = scene.real and not number
            yield Line(
                f"pod {pod.name}",
                f"{role} {pod.name} starts on {pod.node}.",
                (),
                f"-n {scene.namespace} logs -f {pod.name}" if show_log else "",
            )
        for pod in facts.ready(role):
            why = "its Ray answers" if scene.real else "so its fake node says"
            later = told.after(f"pod {pod.name}")
            yield Line(
                f"pod {pod.name} ready", f"{role} {pod.name} is Ready, {later} later: {why}."
            )
    if facts.ready("head") and len(facts.ready("worker")) == 2:
        yield Line(
            WHOLE, f"RUNNING. Head and 2 workers are up, {told.after('admitted')} after admission."
        )
    if WHOLE in told.at_s and not facts.requests and not facts.templates:
        yield Line(
            "used",
            "The booking is used up: taugrid-ray has taken request and pod templates away.",
        )


def _program(facts: Facts, scene: Scene, told: Told) -> Iterator[Line]:
    if not scene.real:
        return
    for pod in (p for p in facts.pods if p.role == SUBMITTER and p.phase != "Pending"):
        yield Line(
            "submitter",
            "The submitter pod hands the program to Ray.",
            (),
            f"-n {scene.namespace} logs -f {pod.name}",
        )
    if facts.job_status in ("RUNNING", "SUCCEEDED"):
        yield Line("program", "Ray runs the program.")
    if facts.finished and facts.job_status == "SUCCEEDED":
        yield Line(
            SUCCEEDED,
            f"SUCCEEDED, {told.after('gang')} after it was queued.",
            (),
            f"-n {scene.namespace} get rayjobs",
        )


def _end(facts: Facts, told: Told) -> Iterator[Line]:
    if SUCCEEDED in told.at_s and all(pod.role == SUBMITTER for pod in facts.pods):
        yield Line(
            "down",
            "KubeRay has taken the Ray cluster down; the quota was free once the job was done.",
        )
    there = {f"node {node.name}" for node in facts.nodes}
    for key in [key for key in told.at_s if key.startswith("node ") and key.endswith(" ready")]:
        node = key.removesuffix(" ready")
        if node not in there:
            yield Line(f"{node} gone", f"{node} was idle; the autoscaler has removed it.")
    if "gang" in told.at_s and _is_nothing_left(facts):
        yield Line(CLEAN, "CLEAN. No pod, no node, no request, no pod template, no Workload left.")


def _is_nothing_left(facts: Facts) -> bool:
    objects = (*facts.pods, *facts.nodes, *facts.requests)
    return not objects and facts.gang is None and not facts.templates and not facts.created


def render(line: Line, at_s: float, kubectl: str) -> str:
    """The line as it is shown; seconds since the demo began stand in front."""
    shown = [stamped(line.text, at_s), *map(below, line.more)]
    if line.look:
        shown.append(below(f"$ {kubectl} {line.look}"))
    return "\n".join(shown)


def stamped(text: str, at_s: float) -> str:
    return f"{at_s:5.1f} s  {text}"


def below(text: str) -> str:
    """More of the line before."""
    return f"{'':9}{text}"
