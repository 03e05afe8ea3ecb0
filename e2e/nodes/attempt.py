"""One attempt of one container: started, probed, told to stop.

An attempt belongs to its pod's worker and is used from that thread alone. What happens elsewhere,
an exit or the answer to a probe, comes back as a message with the attempt's serial, so that news of
an earlier attempt is not taken for one of this.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.nodes import limits
from e2e.nodes.container import Exit, Launched
from e2e.nodes.environment import Surroundings, command_line, environment
from e2e.nodes.logs import LogFile, next_log
from e2e.nodes.probes import (
    Asked,
    Kind,
    Probe,
    Target,
    Verdict,
    after_answer,
    ask,
    first_ask,
    is_due,
    probes,
    run_inside,
    while_asking,
)
from e2e.nodes.volumes import SHARED_MEMORY, Made, mount_orders, names_in_env, read_contents
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj

if TYPE_CHECKING:
    from e2e.nodes.ground import Ground
    from e2e.nodes.sandbox import Sandbox

START_S = 30.0
LAST_WORDS_MAX = 4096
AFTER_KILL_S = 10.0
TERMINATION_LOG = "/dev/termination-log"

_serials = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Ended:
    name: str
    serial: int
    exit: Exit
    at_s: float


@dataclass(frozen=True, slots=True)
class Answered:
    name: str
    serial: int
    kind: Kind
    good: bool
    said: str
    asked_at_s: float


Tell = Callable[[Ended | Answered], None]


@dataclass(slots=True)
class Attempt:
    name: str
    serial: int
    log: LogFile
    since_s: float
    started: bool
    target: Target
    _process: Launched
    _executor: Executor
    _tell: Tell
    _termination_log: Path
    _probes: dict[Kind, Probe]
    _asked: dict[Kind, Asked]
    _pre_stop: Obj = field(default_factory=dict)
    _kill_at_s: float | None = None
    _killed: bool = False

    def probe(self, kind: Kind) -> Probe:
        return self._probes[kind]

    def due(self, now_s: float) -> float | None:
        """Do what is due: ask probes, kill what did not stop. When the next is due."""
        if self._kill_at_s is not None:
            return self._kill_if_due(now_s)
        for kind, asked in self._asked.items():
            probe = self._probes[kind]
            if is_due(probe, asked, now_s, started=self.started):
                self._asked[kind] = while_asking(asked)
                self._executor.submit(self._ask, probe, now_s)
        times = [
            asked.next_at_s
            for kind, asked in self._asked.items()
            if (kind is Kind.STARTUP) != self.started
        ]
        soonest = min(times, default=float("inf"))
        return None if soonest == float("inf") else soonest

    def _ask(self, probe: Probe, asked_at_s: float) -> None:
        good, said = ask(probe, self.target)
        self._tell(Answered(self.name, self.serial, probe.kind, good, said, asked_at_s))

    def answered(self, message: Answered, now_s: float) -> Verdict | None:
        self._asked[message.kind], verdict = after_answer(
            self._probes[message.kind],
            self._asked[message.kind],
            good=message.good,
            asked_at_s=message.asked_at_s,
            now_s=now_s,
        )
        return verdict

    def stop(self, now_s: float, grace_s: float) -> None:
        """The hook, SIGTERM, and SIGKILL when the grace is over."""
        self._kill_at_s = now_s + grace_s
        command = list(fields.strings(self._pre_stop, "exec", "command"))
        if command and grace_s > 0:
            self._executor.submit(self._hook_then_terminate, command, grace_s)
        else:
            self._process.terminate()

    def _hook_then_terminate(self, command: list[str], grace_s: float) -> None:
        run_inside(self.target, command, timeout_s=grace_s)
        self._process.terminate()

    def _kill_if_due(self, now_s: float) -> float | None:
        assert self._kill_at_s is not None
        if now_s < self._kill_at_s:
            return self._kill_at_s
        if not self._killed:
            self._killed = True
            self._kill_at_s = now_s + AFTER_KILL_S
            self._process.kill()
            return self._kill_at_s
        self._process.destroy()
        return now_s + AFTER_KILL_S

    def destroy(self, timeout_s: float) -> None:
        self._process.destroy()
        self._process.wait(timeout_s)

    def last_words(self) -> str:
        """What the program wrote into its termination log."""
        try:
            return self._termination_log.read_text(errors="replace")[:LAST_WORDS_MAX]
        except OSError:
            return ""


@dataclass(frozen=True, slots=True)
class Starter:
    """Makes attempts for one pod."""

    base_env: Mapping[str, str]
    executor: Executor
    tell: Tell

    def start(
        self,
        ground: Ground,
        around: Surroundings,
        sandbox: Sandbox,
        made: Made,
        *,
        name: str,
        folder: Path,
    ) -> Attempt:
        """Returns when the program runs, or failed to. Raises ConfigError where it cannot start."""
        container = _container(around.pod, name)
        namespace = fields.text(around.pod, "metadata", "namespace")
        secrets, config_maps = read_contents(ground.api, namespace, *names_in_env(container))
        known = environment(container, replace(around, secrets=secrets, config_maps=config_maps))
        argv = command_line(container, known)
        serial = next(_serials)
        own = folder / "containers" / f"{name}-{serial}"
        (own / "ray").mkdir(parents=True)
        (own / "termination-log").touch()
        (own / "cgroup").mkdir()
        for file, content in limits.cgroup_files(container).items():
            (own / "cgroup" / file).write_text(content)
        pod_name = fields.text(around.pod, "metadata", "name")
        log = next_log(ground.folder / "pods" / namespace / pod_name / name)
        env = full_environment(self.base_env, known)
        order: Obj = {
            "role": "container",
            "sandbox_pid": sandbox.pid,
            "scratch": str(ground.run_folder / "scratch"),
            "log": str(log.path),
            "times": str(log.times_path),
            "argv": argv,
            "env": env,
            "cwd": fields.text(container, "workingDir") or "/",
            "mounts": _with_defaults(
                mount_orders(container, made.volumes, known), container, folder, own
            ),
        }
        log.path.touch()
        process = Launched(
            order,
            dict(ground.process_env),
            on_exit=lambda end: self.tell(Ended(name, serial, end, time.time())),
        )
        process.running.wait(START_S)
        since_s = ground.clock.now_s()
        asked = {probe.kind: probe for probe in probes(container)}
        return Attempt(
            name=name,
            serial=serial,
            log=log,
            since_s=since_s,
            started=Kind.STARTUP.value not in container,
            target=Target(container, process.pid, sandbox.address, env, str(order["cwd"])),
            _process=process,
            _executor=self.executor,
            _tell=self.tell,
            _termination_log=own / "termination-log",
            _probes=asked,
            _asked={kind: first_ask(probe, since_s) for kind, probe in asked.items()},
            _pre_stop=fields.mapping(container, "lifecycle", "preStop"),
        )


def _container(pod: Obj, name: str) -> Obj:
    everyone = (
        *fields.objects(pod, "spec", "containers"),
        *fields.objects(pod, "spec", "initContainers"),
    )
    return next(each for each in everyone if fields.text(each, "name") == name)


def full_environment(base: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The image's variables, here the node's, under the container's own. Programs of the node's
    Python stay first on the path, whatever the container sets."""
    path = base["PATH"]
    if "PATH" in known:
        path = f"{path.split(':')[0]}:{known['PATH']}"
    return {**base, **known, "PATH": path}


def _with_defaults(mounts: list[Obj], container: Obj, folder: Path, own: Path) -> list[Obj]:
    """What every container has, unless a volume is mounted there."""
    last_words = fields.text(container, "terminationMessagePath") or TERMINATION_LOG
    defaults: list[Obj] = [
        {"source": str(folder / "hosts"), "target": "/etc/hosts"},
        {"source": str(own / "termination-log"), "target": last_words},
        {"source": str(own / "ray"), "target": "/tmp/ray"},
        {"source": str(own / "cgroup"), "target": limits.PLACE, "read_only": True},
        {"source": str(folder / "memory" / SHARED_MEMORY), "target": "/dev/shm"},
    ]
    taken = {str(mount["target"]) for mount in mounts}
    return [*(each for each in defaults if each["target"] not in taken), *mounts]
