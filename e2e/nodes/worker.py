"""One pod: observe what happened, decide what is due, perform it, show it.

One thread per pod, as in the kubelet. Everything that happens comes in as a message: the pod's
object changed, a container ended, a probe answered, the node is gone. After each message, and when
something becomes due by the clock, the worker makes one pass. Decisions are `lifecycle.decide`'s;
the status is `status.pod_status`'s and is written only when it differs from what was written last.
"""

from __future__ import annotations

import logging
import queue
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from e2e.nodes import lifecycle, status
from e2e.nodes.addresses import NoAddressLeft
from e2e.nodes.attempt import Answered, Attempt, Ended, Starter
from e2e.nodes.environment import ConfigError, Surroundings
from e2e.nodes.ground import Ground
from e2e.nodes.hosts import Self, aliases, hostname_of
from e2e.nodes.lifecycle import Plan, Record
from e2e.nodes.logs import LogFile
from e2e.nodes.probes import Kind, Verdict
from e2e.nodes.sandbox import Sandbox, SandboxError
from e2e.nodes.volumes import Made, VolumeError, make_volumes, memory_sizes, renewed
from taugrid_ray.errors import ApiError, Conflict, NotFound, Unreachable
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import parse_meta, time_at
from taugrid_ray.kinds.resource import POD, Obj
from taugrid_ray.kube.api import Patch

log = logging.getLogger(__name__)

RETRY_S = 1.0
GONE_S = 30.0
DEADLINE = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)


@dataclass(frozen=True, slots=True)
class Changed:
    """The pod's object, as the API server has it now."""

    pod: Obj


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod's object or its node is no more: end it now, tell nobody."""


Message = Changed | Gone | Ended | Answered


class Worker:
    def __init__(self, ground: Ground, pod: Obj, allocatable: Mapping[str, str]) -> None:
        meta = parse_meta(pod)
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self.node = fields.text(pod, "spec", "nodeName")
        self._ground, self._pod = ground, pod
        self._line = lifecycle.plans(pod)
        self._inbox: queue.Queue[Message] = queue.Queue()
        now_s = ground.clock.now_s()
        found = status.records_from(pod)
        self._records = {n: lifecycle.after_lost_node(r, now_s) for n, r in found.items()}
        self._attempts: dict[str, Attempt] = {}
        self._logs: dict[str, list[LogFile]] = {}
        self._sandbox: Sandbox | None = None
        self._made: Made | None = None
        self._start_time_s = time_at(pod, "status", "startTime") or now_s
        self._failure: tuple[str, str] | None = None
        self._trouble = ("", "")
        self._retry_at_s = 0.0
        self._sent: Obj | None = None
        self._released = False
        self._gone = False
        self._quit = False
        self._just_started = False
        self._around = Surroundings(
            pod, {"hostIP": ground.host_ip}, allocatable, ground.service_env
        )
        self._starter = Starter(ground.base_env, ground.executor, self._inbox.put)
        self._thread = Thread(
            target=self._run, name=f"pod {self.namespace}/{self.name}", daemon=True
        )

    # From other threads

    def start(self) -> None:
        self._thread.start()

    def tell(self, message: Message) -> None:
        self._inbox.put(message)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def has_quit(self) -> bool:
        """Its thread is over, whether or not its pod is still there."""
        return self._quit

    def logs_of(self, container: str) -> list[LogFile]:
        """One for each attempt so far, the newest last."""
        return list(self._logs.get(container, ()))

    def is_running(self, log_file: LogFile) -> bool:
        """Is the attempt that writes this log still on?"""
        return any(attempt.log == log_file for attempt in list(self._attempts.values()))

    def process_of(self, container: str) -> int:
        """The first process of a running container, as seen from here; 0 for none."""
        attempt = self._attempts.get(container)
        return attempt.target.pid if attempt is not None else 0

    # The worker's own thread

    def _run(self) -> None:
        try:
            wake_at_s: float | None = self._now_s()
            while not self._gone:
                self._take(wake_at_s)
                wake_at_s = self._pass()
        except Exception:
            log.exception("pod %s/%s: its worker failed", self.namespace, self.name)
            raise
        finally:
            self._destroy()
            self._quit = True

    def _now_s(self) -> float:
        return self._ground.clock.now_s()

    def _take(self, wake_at_s: float | None) -> None:
        """Wait for a message or the time, then take all messages that are there."""
        wait_s = None if wake_at_s is None else max(0.0, wake_at_s - self._now_s())
        try:
            self._apply(self._inbox.get(timeout=wait_s))
            while True:
                self._apply(self._inbox.get_nowait())
        except queue.Empty:
            return

    def _apply(self, message: Message) -> None:
        match message:
            case Changed(pod):
                self._pod = pod
            case Gone():
                self._gone = True
            case Ended():
                self._container_ended(message)
            case Answered():
                self._probe_answered(message)

    def _pass(self) -> float | None:
        """One round; when the next is due at the latest."""
        if self._gone:
            return None
        now_s = self._now_s()
        self._note_deadline(now_s)
        wakes = []
        if self._needs_ground(now_s):
            self._prepare(now_s)
        if self._is_ending or self._made is not None or self._is_over:
            decision = lifecycle.decide(self._line, self._records, now_s, ending=self._is_ending)
            for name in decision.stop:
                self._stop(name, self._grace_s())
            for name in decision.start:
                self._start(name)
            if decision.over:
                self._give_back()
            wakes.append(decision.wake_at_s)
        wakes += [attempt.due(self._now_s()) for attempt in self._attempts.values()]
        wakes += [self._renew_tokens(), self._show(), self._deadline_s()]
        if self._trouble[0]:
            wakes.append(self._retry_at_s)
        if self._just_started:  # others may follow at once, such as those after a sidecar
            self._just_started = False
            wakes.append(self._now_s())
        return min((each for each in wakes if each is not None), default=None)

    @property
    def _is_deleted(self) -> bool:
        return parse_meta(self._pod).is_terminating

    @property
    def _is_ending(self) -> bool:
        return self._is_deleted or self._failure is not None

    @property
    def _is_over(self) -> bool:
        return lifecycle.is_complete(self._line, self._records) or lifecycle.has_failed(
            self._line, self._records
        )

    # Getting ready

    def _needs_ground(self, now_s: float) -> bool:
        idle = self._made is None and not self._is_ending and not self._is_over
        return idle and now_s >= self._retry_at_s

    @property
    def _folder(self) -> Path:
        return self._ground.run_folder / self.uid

    def _prepare(self, now_s: float) -> None:
        """Network, names and volumes: what all containers of the pod share."""
        memory = self._folder / "memory"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._sandbox is None:
                self._sandbox = Sandbox(
                    self._ground.network,
                    hostname=hostname_of(self._pod),
                    memory={memory / n: size for n, size in memory_sizes(self._pod).items()},
                    env=dict(self._ground.process_env),
                )
            addresses = {**self._around.addresses, "podIP": self._sandbox.address}
            self._around = replace(self._around, pod=self._pod, addresses=addresses)
            self._enter_names(self._sandbox)
            volumes = self._folder / "volumes"
            self._made = make_volumes(self._ground.api, volumes, memory, self._around)
            self._trouble = ("", "")
        except (NoAddressLeft, SandboxError, VolumeError, ApiError, Unreachable) as error:
            self._trouble = ("ContainerCreating", str(error))
            self._retry_at_s = now_s + RETRY_S

    def _enter_names(self, sandbox: Sandbox) -> None:
        me = Self(self.namespace, hostname_of(self._pod), sandbox.address, aliases(self._pod))
        self._ground.names.enter(self.uid, me, self._folder / "hosts")

    # Containers

    def _plan(self, name: str) -> Plan:
        return next(plan for plan in self._line if plan.name == name)

    def _record(self, name: str) -> Record:
        return self._records.get(name, Record())

    def _start(self, name: str) -> None:
        assert self._sandbox is not None
        assert self._made is not None
        record = self._record(name)
        now_s = self._now_s()
        try:
            attempt = self._starter.start(
                self._ground,
                self._around,
                self._sandbox,
                self._made,
                name=name,
                folder=self._folder,
            )
        except (ConfigError, VolumeError, ApiError, Unreachable) as error:
            refusal = ("CreateContainerConfigError", str(error))
            self._records[name] = lifecycle.after_refusal(
                record, *refusal, now_s, self._ground.backoff
            )
            return
        self._just_started = True
        self._attempts[name] = attempt
        self._logs.setdefault(name, []).append(attempt.log)
        self._records[name] = lifecycle.after_start(record, self._plan(name), attempt.since_s)

    def _stop(self, name: str, grace_s: float) -> None:
        self._records[name] = replace(self._record(name), stopping=True, ready=False)
        self._attempts[name].stop(self._now_s(), grace_s)

    def _container_ended(self, message: Ended) -> None:
        attempt = self._attempts.get(message.name)
        if attempt is None or attempt.serial != message.serial:
            return
        del self._attempts[message.name]
        ended = lifecycle.Ended(
            exit_code=message.exit.code,
            signal=message.exit.signal,
            reason="StartError" if message.exit.error else "",
            message=message.exit.error or attempt.last_words(),
            started_at_s=attempt.since_s,
            finished_at_s=message.at_s,
        )
        record = self._record(message.name)
        self._records[message.name] = lifecycle.after_end(record, ended, self._ground.backoff)

    def _probe_answered(self, message: Answered) -> None:
        attempt = self._attempts.get(message.name)
        if attempt is None or attempt.serial != message.serial:
            return
        verdict = attempt.answered(message, self._now_s())
        record = self._record(message.name)
        if verdict is None or record.stopping:
            return
        good = verdict is Verdict.GOOD
        if message.kind is Kind.READINESS:
            self._records[message.name] = replace(record, ready=good)
        elif not good:
            log.info(
                "pod %s/%s: %s of %s failed: %s",
                self.namespace,
                self.name,
                message.kind.value,
                message.name,
                message.said,
            )
            self._stop(message.name, self._probe_grace_s(attempt, message.kind))
        elif message.kind is Kind.STARTUP:
            attempt.started = True
            ready = not self._plan(message.name).has_readiness_probe
            self._records[message.name] = replace(record, started=True, ready=ready)

    def _probe_grace_s(self, attempt: Attempt, kind: Kind) -> float:
        own = attempt.probe(kind).grace_s
        return self._grace_s() if own is None else self._capped(own)

    def _grace_s(self) -> float:
        asked = fields.integer(self._pod, "metadata", "deletionGracePeriodSeconds")
        if asked is None:
            asked = fields.integer(self._pod, "spec", "terminationGracePeriodSeconds")
        return self._capped(30 if asked is None else asked)

    def _capped(self, grace_s: float) -> float:
        cap_s = self._ground.max_grace_s
        return grace_s if cap_s is None else min(grace_s, cap_s)

    # The pod as a whole

    def _deadline_s(self) -> float | None:
        seconds = fields.integer(self._pod, "spec", "activeDeadlineSeconds")
        if seconds is None or self._is_ending or self._is_over:
            return None
        return self._start_time_s + seconds

    def _note_deadline(self, now_s: float) -> None:
        deadline_s = self._deadline_s()
        if deadline_s is not None and now_s >= deadline_s:
            self._failure = DEADLINE

    def _renew_tokens(self) -> float | None:
        if self._made is None or not self._made.tokens or self._is_over or self._is_ending:
            return None
        now_s = self._now_s()
        try:
            tokens = tuple(
                renewed(self._ground.api, self._pod, each) if each.renew_at_s <= now_s else each
                for each in self._made.tokens
            )
        except (ApiError, Unreachable, VolumeError) as error:
            log.warning("pod %s/%s: no new token: %s", self.namespace, self.name, error)
            return now_s + 10 * RETRY_S
        self._made = replace(self._made, tokens=tokens)
        return min(each.renew_at_s for each in tokens)

    def _show(self) -> float | None:
        """Write the status where it changed; let the object go once it is deleted and all ended."""
        facts = status.Facts(
            pod=self._pod,
            line=self._line,
            records=self._records,
            pod_ip=self._around.addresses.get("podIP", ""),
            host_ip=self._ground.host_ip,
            start_time_s=self._start_time_s,
            ending=self._is_deleted,
            failure=self._failure,
            trouble=self._trouble,
        )
        shown = status.pod_status(facts, self._now_s())
        try:
            if shown != self._sent:
                self._write(shown)
                self._sent = shown
            if self._is_deleted and not self._attempts and not self._released:
                self._ground.api.delete(POD, self.name, self.namespace, uid=self.uid, grace_s=0)
                self._released = True
        except (NotFound, Conflict):
            self._gone = True
        except (ApiError, Unreachable) as error:
            log.warning("pod %s/%s: %s; again soon", self.namespace, self.name, error)
            return self._now_s() + RETRY_S
        return None

    def _write(self, shown: Obj) -> None:
        body = {"metadata": {"uid": self.uid}, "status": shown}
        answer = self._ground.api.patch(
            POD,
            self.name,
            body,
            self.namespace,
            how=Patch.STRATEGIC,
            sub="status",
            manager="process-node",
        )
        # Only what is ours of the answer: deletion and the rest come through the watch, in order.
        self._pod = {**self._pod, "status": answer.get("status", {})}

    def _give_back(self) -> None:
        """Nothing runs any more: network, files and all."""
        if self._sandbox is not None:
            self._ground.names.leave(self.uid)
            self._sandbox.close()
            self._sandbox = None
        self._made = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _destroy(self) -> None:
        for attempt in self._attempts.values():
            attempt.destroy(GONE_S)
        self._attempts.clear()
        self._give_back()
