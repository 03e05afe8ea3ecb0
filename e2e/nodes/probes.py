"""Probes: when to ask, what the answers mean (pure), and the asking.

HTTP and TCP probes go from the node to the pod's address over the bridge, as the kubelet's do; exec
probes run inside of the container.

Source: kubernetes, pkg/kubelet/prober/worker.go, v1.36.
"""

from __future__ import annotations

import http.client
import math
import socket
import ssl
import subprocess
from dataclasses import dataclass, replace
from enum import Enum

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj


class Kind(str, Enum):
    STARTUP = "startupProbe"
    READINESS = "readinessProbe"
    LIVENESS = "livenessProbe"


class Verdict(Enum):
    """What the answers so far come to. Between the thresholds the last verdict stands."""

    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Probe:
    kind: Kind
    action: Obj
    initial_delay_s: float
    period_s: float
    timeout_s: float
    successes_needed: int
    failures_needed: int
    grace_s: int | None
    """Of the container that is ended for it; None for the pod's own."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Where one probe of one attempt stands."""

    next_at_s: float
    successes: int = 0
    failures: int = 0


def probes(container: Obj) -> tuple[Probe, ...]:
    return tuple(
        _probe(kind, fields.mapping(container, kind.value))
        for kind in Kind
        if kind.value in container
    )


def _probe(kind: Kind, spec: Obj) -> Probe:
    def number(name: str, default: int) -> int:
        found = fields.integer(spec, name)
        return found or default

    return Probe(
        kind=kind,
        action=spec,
        initial_delay_s=number("initialDelaySeconds", 0),
        period_s=number("periodSeconds", 10),
        timeout_s=number("timeoutSeconds", 1),
        successes_needed=number("successThreshold", 1),
        failures_needed=number("failureThreshold", 3),
        grace_s=fields.integer(spec, "terminationGracePeriodSeconds"),
    )


def first_ask(probe: Probe, running_since_s: float) -> Asked:
    return Asked(next_at_s=running_since_s + probe.initial_delay_s)


def is_due(probe: Probe, asked: Asked, now_s: float, *, started: bool) -> bool:
    """A startup probe is asked until it has passed, the others only after that."""
    return (probe.kind is Kind.STARTUP) is not started and asked.next_at_s <= now_s


def while_asking(asked: Asked) -> Asked:
    return replace(asked, next_at_s=math.inf)


def after_answer(
    probe: Probe, asked: Asked, *, good: bool, asked_at_s: float, now_s: float
) -> tuple[Asked, Verdict | None]:
    following = Asked(
        next_at_s=max(now_s, asked_at_s + probe.period_s),
        successes=asked.successes + 1 if good else 0,
        failures=0 if good else asked.failures + 1,
    )
    if following.successes >= probe.successes_needed:
        return following, Verdict.GOOD
    if following.failures >= probe.failures_needed:
        return following, Verdict.BAD
    return following, None


# Asking


@dataclass(frozen=True, slots=True)
class Target:
    """The attempt that is asked."""

    container: Obj
    pid: int
    """Its first process, as seen from here."""
    address: str
    env: dict[str, str]
    cwd: str


def ask(probe: Probe, target: Target) -> tuple[bool, str]:
    """One question; the sentence says what went wrong."""
    action = probe.action
    if "exec" in action:
        command = list(fields.strings(action, "exec", "command"))
        return run_inside(target, command, timeout_s=probe.timeout_s)
    try:
        if "httpGet" in action:
            return _get(fields.mapping(action, "httpGet"), target, probe.timeout_s)
        if "tcpSocket" in action:
            return _connect(fields.mapping(action, "tcpSocket"), target, probe.timeout_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return False, str(error)
    return False, "probes by gRPC are not served on process nodes"


def run_inside(target: Target, command: list[str], *, timeout_s: float) -> tuple[bool, str]:
    """Run a command in the container's namespaces, as `kubectl exec` would."""
    enter = ["nsenter", "--target", str(target.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
    full = [*enter, "--", "env", f"--chdir={target.cwd}", "--", *command]
    process = subprocess.Popen(
        full,
        env=target.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return False, f"command timed out after {timeout_s:g}s"
    finally:
        if process.stdout is not None:
            process.stdout.close()
        process.wait()
    return process.returncode == 0, output[-200:].decode(errors="replace").strip()


def port_number(port: object, container: Obj) -> int:
    """A probe names a port by number, or by a name that the container's ports have."""
    if isinstance(port, int):
        return port
    for each in fields.objects(container, "ports"):
        if fields.text(each, "name") == port:
            return fields.integer(each, "containerPort") or 0
    return int(str(port))


def _get(action: Obj, target: Target, timeout_s: float) -> tuple[bool, str]:
    host = fields.text(action, "host") or target.address
    port = port_number(action.get("port"), target.container)
    path = fields.text(action, "path") or "/"
    connection: http.client.HTTPConnection
    if fields.text(action, "scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    headers = {
        fields.text(each, "name"): fields.text(each, "value")
        for each in fields.objects(action, "httpHeaders")
    }
    try:
        connection.request("GET", path if path.startswith("/") else f"/{path}", headers=headers)
        answer = connection.getresponse()
        return 200 <= answer.status < 400, f"HTTP probe answered {answer.status}"
    finally:
        connection.close()


def _connect(action: Obj, target: Target, timeout_s: float) -> tuple[bool, str]:
    host = fields.text(action, "host") or target.address
    port = port_number(action.get("port"), target.container)
    socket.create_connection((host, port), timeout=timeout_s).close()
    return True, ""
