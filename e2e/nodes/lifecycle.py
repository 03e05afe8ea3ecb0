"""Which container of a pod starts, restarts or stops now: the kubelet's rules as pure functions.

A pod's containers stand in one line: init containers, each of which must end well before the next
starts (one with `restartPolicy: Always`, a sidecar, must only be up), then the main ones, all at
once. What happened to each is a `Record`; `decide` reads all records and says what is due.

A container that ends too often waits: the first restart is immediate, the next after 10 s, then
twice as long each time up to 5 minutes; after 10 minutes of running the count starts again.

Source: kubernetes, pkg/kubelet/kuberuntime/kuberuntime_manager.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj

LOST = 137
"""The exit code of a container that nobody saw ending, as after SIGKILL."""


class Restart(str, Enum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class Role(Enum):
    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class Plan:
    """One container as the pod's spec has it."""

    name: str
    role: Role
    restart: Restart
    has_startup_probe: bool = False
    has_readiness_probe: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt is over."""

    exit_code: int
    started_at_s: float
    finished_at_s: float
    reason: str = ""
    message: str = ""
    signal: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """What happened to one container. The default is: nothing yet."""

    attempts: int = 0
    """How many times it was started, the running one included."""
    running_since_s: float | None = None
    stopping: bool = False
    """It was told to stop and still runs."""
    started: bool = False
    """It runs, and its startup probe, if any, has passed."""
    ready: bool = False
    last: Ended | None = None
    before_last: Ended | None = None
    crashes: int = 0
    """Ends in a row, none of which came after a long run."""
    restart_at_s: float = 0.0
    waiting_reason: str = ""
    """Why it could not be started, such as CreateContainerConfigError; "" when it was not tried."""
    waiting_message: str = ""

    @property
    def is_running(self) -> bool:
        return self.running_since_s is not None

    @property
    def has_ended_well(self) -> bool:
        return not self.is_running and self.last is not None and self.last.exit_code == 0


@dataclass(frozen=True, slots=True)
class Backoff:
    base_s: float = 10.0
    factor: float = 2.0
    max_s: float = 300.0
    forgive_after_s: float = 600.0

    def delay_s(self, crashes: int) -> float:
        """How long to wait before the restart that follows `crashes` ends in a row."""
        if crashes <= 1:
            return 0.0
        return min(self.max_s, self.base_s * self.factor ** min(crashes - 2, 30))


@dataclass(frozen=True, slots=True)
class Decision:
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """To be told to stop now; the rest follows once they have ended."""
    wake_at_s: float | None = None
    over: bool = False
    """Nothing runs and nothing will: the pod has reached its last phase."""


Records = Mapping[str, Record]


def plans(pod: Obj) -> tuple[Plan, ...]:
    """The pod's containers in the order in which they start."""
    policy = Restart(fields.text(pod, "spec", "restartPolicy") or "Always")
    line = []
    for container in fields.objects(pod, "spec", "initContainers"):
        if fields.text(container, "restartPolicy") == "Always":
            line.append(_plan(container, Role.SIDECAR, Restart.ALWAYS))
        else:
            kept = Restart.NEVER if policy is Restart.NEVER else Restart.ON_FAILURE
            line.append(_plan(container, Role.INIT, kept))
    mains = fields.objects(pod, "spec", "containers")
    return (*line, *(_plan(container, Role.MAIN, policy) for container in mains))


def _plan(container: Obj, role: Role, restart: Restart) -> Plan:
    return Plan(
        name=fields.text(container, "name"),
        role=role,
        restart=restart,
        has_startup_probe="startupProbe" in container,
        has_readiness_probe="readinessProbe" in container,
    )


def decide(
    line: tuple[Plan, ...], records: Records, now_s: float, *, ending: bool = False
) -> Decision:
    """What is due now. `ending`: the pod is being deleted or ran past its deadline."""
    if ending or has_failed(line, records) or is_complete(line, records):
        return _wind_down(line, records)
    start: list[str] = []
    wakes: list[float] = []
    for plan in line:
        record = records.get(plan.name, Record())
        if not record.is_running and will_start(plan, record):
            if record.restart_at_s <= now_s:
                start.append(plan.name)
            else:
                wakes.append(record.restart_at_s)
        if not _lets_the_next_start(plan, record):
            break
    return Decision(start=tuple(start), wake_at_s=min(wakes, default=None))


def will_start(plan: Plan, record: Record) -> bool:
    """Is a container that does not run to be started, now or after its back-off?"""
    if record.last is None or plan.restart is Restart.ALWAYS:
        return True
    return plan.restart is Restart.ON_FAILURE and record.last.exit_code != 0


def _lets_the_next_start(plan: Plan, record: Record) -> bool:
    if plan.role is Role.MAIN:
        return True
    if plan.role is Role.SIDECAR:
        return record.started
    return record.has_ended_well


def is_initialized(line: tuple[Plan, ...], records: Records) -> bool:
    return all(
        _lets_the_next_start(plan, records.get(plan.name, Record()))
        for plan in line
        if plan.role is Role.INIT
    ) and all(
        records.get(plan.name, Record()).attempts > 0 for plan in line if plan.role is Role.SIDECAR
    )


def has_failed(line: tuple[Plan, ...], records: Records) -> bool:
    """Has an init container failed for good?"""
    return any(
        plan.role is Role.INIT
        and not record.is_running
        and record.last is not None
        and record.last.exit_code != 0
        and not will_start(plan, record)
        for plan in line
        for record in [records.get(plan.name, Record())]
    )


def is_complete(line: tuple[Plan, ...], records: Records) -> bool:
    """Have all main containers ended for good?"""
    return all(
        not record.is_running and record.last is not None and not will_start(plan, record)
        for plan in line
        if plan.role is Role.MAIN
        for record in [records.get(plan.name, Record())]
    )


def _wind_down(line: tuple[Plan, ...], records: Records) -> Decision:
    """Main and init containers first, then sidecars, the last one first."""
    running = [plan for plan in line if records.get(plan.name, Record()).is_running]
    if not running:
        return Decision(over=True)
    first = [plan for plan in running if plan.role is not Role.SIDECAR] or running[-1:]
    return Decision(stop=tuple(p.name for p in first if not records[p.name].stopping))


def after_start(record: Record, plan: Plan, now_s: float) -> Record:
    return replace(
        record,
        attempts=record.attempts + 1,
        running_since_s=now_s,
        stopping=False,
        started=not plan.has_startup_probe,
        ready=not plan.has_startup_probe and not plan.has_readiness_probe,
        waiting_reason="",
        waiting_message="",
    )


def after_end(record: Record, ended: Ended, backoff: Backoff) -> Record:
    ran_s = ended.finished_at_s - ended.started_at_s
    crashes = 1 if ran_s >= backoff.forgive_after_s else record.crashes + 1
    return replace(
        record,
        running_since_s=None,
        stopping=False,
        started=False,
        ready=False,
        last=ended,
        before_last=record.last,
        crashes=crashes,
        restart_at_s=ended.finished_at_s + backoff.delay_s(crashes),
    )


def after_refusal(
    record: Record, reason: str, message: str, now_s: float, backoff: Backoff
) -> Record:
    """It could not even be started; the kubelet tries such a container again and again."""
    return replace(
        record,
        waiting_reason=reason,
        waiting_message=message,
        restart_at_s=now_s + backoff.base_s,
    )


def after_lost_node(record: Record, now_s: float) -> Record:
    """The node restarted under the container: nobody knows how it ended."""
    if not record.is_running:
        return record
    ended = Ended(
        exit_code=LOST,
        started_at_s=record.running_since_s or now_s,
        finished_at_s=now_s,
        reason="ContainerStatusUnknown",
        message="The container could not be located when its node started again",
    )
    return after_end(record, ended, Backoff(base_s=0.0))
