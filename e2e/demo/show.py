"""The demo itself: a cluster of its own, an admin's set-up, a user's RayJob, and their end."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import click

from e2e import installation
from e2e.build import ensure_built
from e2e.cluster import Cluster, ClusterError, Nodes, Settings
from e2e.cluster.console import Console
from e2e.cluster.extras import default_extras
from e2e.cluster.settings import REPOSITORY
from e2e.demo.facts import SUBMITTER, Facts, gather
from e2e.demo.story import CLEAN, SUCCEEDED, WHOLE, Scene, Told, below, render, stamped, tell
from e2e.scenarios.record import Record
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.node import parse_node
from taugrid_ray.kinds.resource import Obj
from taugrid_ray.sentences import printable

NAME = "demo"
NAMESPACE = "team-a"
CHECK = "capacity"
JOB = "estimate-pi"
POOL = "cpu-pool"
TEMPLATES = REPOSITORY / "rayjob_templates"
STEP_S = 300.0
"""For one part of the story; Ray starts in 20 s on two idle cores, in minutes on busy ones."""
CLOUD = {"scaleDownUnneededSeconds": 5, "scaleDownDelayAfterAddSeconds": 5}
"""A cloud that lets go of idle nodes in seconds instead of ten minutes."""
_RAYS_OWN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|Running entrypoint for job ")


def show(*, nodes: Nodes, why_fake: str, keep: bool) -> None:
    """Tell the whole of it on standard output.

    keep: leave the cluster up at the end, also after a failure. Ctrl-C always takes it down.
    """
    say = click.echo
    with Console() as console:
        ensure_built(console.say, console.step)
    began_s = time.monotonic()
    say("A Ray job that starts only when its whole gang has quota AND booked nodes.\n")
    say("1. A CLUSTER of real parts, as plain processes on this machine")
    if why_fake:
        say(below(f"FAKE NODES: {why_fake}."))
        say(below("Nobody runs the pods, and what Ray itself would do is left out of the story."))
    cluster = Cluster.up(
        Settings(name=NAME, nodes=nodes, extras=default_extras(nodes)), progress=say
    )
    stays_up = False
    try:
        Demo(cluster, began_s, say).run()
        stays_up = keep
    except Exception:
        stays_up = keep
        raise
    finally:
        if stays_up:
            say(_how_to_look(cluster))
        else:
            count = cluster.down()
            say(f"\nThe cluster is taken down: {count} processes ended, network and files gone.")
    say(stamped(f"The end. Read next: README.md, {_short(TEMPLATES)}/", _since(began_s)))


def _since(began_s: float) -> float:
    return time.monotonic() - began_s


def _how_to_look(cluster: Cluster) -> str:
    return "\n".join(
        (
            "\nThe cluster stays up (--keep). Look around, or run the job once more:",
            f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}",
            f"  {_short(cluster.folder / 'kubectl')} apply -f {_short(TEMPLATES / 'rayjob.yaml')}",
            f"  logs of all parts: {_short(cluster.logs)}/   of pods: {_short(pod_logs(cluster))}/",
            f"Take it down:  python -m e2e down --name {NAME}",
        )
    )


def pod_logs(cluster: Cluster) -> Path:
    """Below it NAMESPACE/POD/CONTAINER/N.log, which stay when the pod is gone."""
    return cluster.folder / "nodes" / "pods"


class Demo:
    def __init__(self, cluster: Cluster, began_s: float, say: Callable[[str], None]) -> None:
        self._cluster, self._began_s, self._say = cluster, began_s, say
        self._record = Record(cluster.api)
        self._told: dict[str, float] = {}
        self._kubectl = _short(_write_kubectl(cluster))
        real = cluster.nodes is Nodes.PROCESS
        self._scene = Scene(NAMESPACE, POOL, quota="8", real=real)
        self._submitter = ""

    def run(self) -> None:
        real = self._scene.real
        self._now("Kubernetes, Kueue, KubeRay and the taugrid-ray controller run.")
        self._more(
            "While this goes on, look around from another terminal:", "$ KUBECTL get pods -A"
        )
        self._more(f"Their logs: {_short(self._cluster.logs)}/")
        self._set_up()
        self._submit()
        self._until(WHOLE)
        if real:
            self._until(SUCCEEDED)
            self._output()
        self._clear_up()
        self._record.stop()

    # The parts of the story

    def _set_up(self) -> None:
        file = TEMPLATES / "capacity-queue.yaml"
        self._say("\n2. THE ADMIN sets up a queue")
        pool: Obj = {
            "name": POOL,
            "max": 4,
            "kind": self._cluster.nodes.value,
            "bootSeconds": 1,
            "readySeconds": 3,
            "node": {
                "labels": {"pool": POOL},
                "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"},
            },
        }
        installation.set_pools(self._cluster, [pool], CLOUD)
        installation.apply(self._cluster, file)
        self._now(f"Queue {NAMESPACE}: quota for 8 CPUs, and the check taugrid.io/capacity on it.")
        self._more(
            f"Its objects, each explained: {_short(file)}",
            "Its node pool can have 4 nodes with 2 CPUs each. Now it has none.",
            "$ KUBECTL get clusterqueues,admissionchecks,capacitypolicies,nodes",
        )
        self._record.start()

    def _submit(self) -> None:
        file = TEMPLATES / "rayjob.yaml"
        self._say(
            "\n3. A USER submits a RayJob: a head and 2 workers, none of use without the others"
        )
        installation.apply(self._cluster, file)
        self._now(f"RayJob {JOB} is created. Nothing in it is special: see {_short(file)}")

    def _output(self) -> None:
        folder = pod_logs(self._cluster) / NAMESPACE / self._submitter
        self._say(below(f"What it wrote, out of {_short(folder)}/:"))
        for file in sorted(folder.glob("*/0.log")):
            for line in file.read_text(errors="replace").splitlines():
                if line and not _RAYS_OWN.match(line):
                    self._say(below(f"| {printable(line)}"))

    def _clear_up(self) -> None:
        self._say("\n4. THE END of the job")
        if self._scene.real:
            self._until(*(f"node {each.name} gone" for each in self._look().nodes))
        else:
            self._now("Fake nodes run no program, so the user cancels the job.")
        self._now("The user deletes the RayJob.")
        self._cluster.api.delete(kinds.RAY_JOB, JOB, NAMESPACE)
        self._until(CLEAN)

    # Telling

    def _now(self, text: str) -> None:
        self._say(stamped(text, self._at_s()))

    def _more(self, *lines: str) -> None:
        for line in lines:
            self._say(below(line.replace("KUBECTL", self._kubectl)))

    def _at_s(self) -> float:
        return _since(self._began_s)

    def _until(self, *keys: str) -> None:
        """Tell what happens, up to these lines."""
        if not self._record.wait_until(lambda: self._has_told(keys), STEP_S):
            last = max(self._told, key=lambda key: self._told[key], default="the start")
            raise ClusterError(
                f"the story did not go on within {STEP_S:.0f} s after: {last}",
                hint="python -m e2e demo --keep leaves the cluster up, to see why",
            )

    def _has_told(self, keys: tuple[str, ...]) -> bool:
        self._tell()
        return all(key in self._told for key in keys)

    def _tell(self) -> None:
        facts = self._look()
        if facts.failure:
            raise ClusterError(f"the RayJob failed: {printable(facts.failure, limit=2000)}")
        for pod in facts.pods:
            if pod.role == SUBMITTER:
                self._submitter = pod.name
        told = Told(self._told, self._at_s())
        for line in tell(facts, self._scene, told):
            if line.key not in self._told:
                self._told[line.key] = told.now_s
                self._say(render(line, told.now_s, self._kubectl))

    def _look(self) -> Facts:
        record = self._record
        nodes = record.all(kinds.NODE)
        return gather(
            ray_job=record.get(kinds.RAY_JOB, JOB, NAMESPACE),
            workloads=record.all(kinds.WORKLOAD, NAMESPACE),
            requests=record.all(kinds.PROVISIONING_REQUEST, NAMESPACE),
            templates=record.all(kinds.POD_TEMPLATE, NAMESPACE),
            nodes=[node for node in nodes if parse_node(node).labels.get("pool") == POOL],
            pods=record.all(kinds.POD, NAMESPACE),
            check=CHECK,
        )


def _write_kubectl(cluster: Cluster) -> Path:
    """A kubectl that speaks to this cluster and to no other."""
    script = cluster.folder / "kubectl"
    argv = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig)]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def _short(path: Path) -> str:
    """From the current folder, where it is below that."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path.is_relative_to(here) else str(path)
