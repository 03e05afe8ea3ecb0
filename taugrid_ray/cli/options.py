"""Options that several commands share, and the cluster they lead to."""

from __future__ import annotations

import functools
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from taugrid_ray.errors import UsageError

if TYPE_CHECKING:
    from taugrid_ray.jobs.following import Pause
    from taugrid_ray.jobs.observed import JobRef
    from taugrid_ray.kube.api import KubeApi, PodLogs
    from taugrid_ray.kube.clock import Clock

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and namespace the user named; empty where the kubeconfig says it."""

    context: str = ""
    kubeconfig: str = ""
    namespace: str = ""

    def command(self, verb: str, ref: JobRef) -> str:
        """The command that goes on with a job, as it can be typed."""
        words = ["taugrid", verb, ref.target, "-n", ref.namespace]
        words += ["--context", self.context] if self.context else []
        words += ["--kubeconfig", self.kubeconfig] if self.kubeconfig else []
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Session:
    """A cluster to talk to, and the namespace in which names are looked up."""

    api: KubeApi
    logs: PodLogs
    namespace: str


def connect(where: Where) -> Session:
    from taugrid_ray.kube.wire import connect as wire_to

    wire = wire_to(
        kubeconfig=where.kubeconfig or None, context=where.context or None, user_agent="taugrid"
    )
    return Session(wire, wire, where.namespace or wire.namespace)


def _system_clock() -> Clock:
    from taugrid_ray.kube.clock import SystemClock

    return SystemClock()


@dataclass(frozen=True, slots=True)
class Tools:
    """What commands use of the world; tests bring their own. pause: None sleeps in a watch."""

    connect: Callable[[Where], Session] = connect
    clock: Clock = field(default_factory=_system_clock)
    sleep: Callable[[float], None] = time.sleep
    pause: Pause | None = None


def tools_of(ctx: click.Context) -> Tools:
    found = ctx.find_object(Tools)
    return found if found is not None else Tools()


_CLUSTER_OPTIONS = (
    click.option("-n", "--namespace", default="", help="Namespace; the context's by default."),
    click.option("--context", default="", help="Context of the kubeconfig; its current one."),
    click.option(
        "--kubeconfig", default="", metavar="FILE", help="Else KUBECONFIG, else ~/.kube/config."
    ),
)


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds -n, --context and --kubeconfig; the command gets `tools` and `where`."""

    @functools.wraps(command)
    def wrapped(*, namespace: str, context: str, kubeconfig: str, **given: Any) -> None:
        where = Where(context, kubeconfig, namespace)
        command(tools=tools_of(click.get_current_context()), where=where, **given)

    for option in reversed(_CLUSTER_OPTIONS):
        option(wrapped)
    return wrapped


def output_option(*forms: str) -> Callable[[F], F]:
    """-o/--output; the first form is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="How to print the result.",
    )


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def duration(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m` in seconds. Raises click.BadParameter."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise click.BadParameter(f"{text!r} is no time: write 90s, 10m or 1h30m")
    if len(parts) > 1 and any(not unit for _, unit in parts):
        raise click.BadParameter(f"{text!r} is no time: each number needs a unit")
    return float(sum(float(number) * _UNITS_S[unit] for number, unit in parts))


def timeout_option(default: str | None = None) -> Callable[[F], F]:
    return click.option(
        "--timeout",
        type=duration,
        default=default,
        show_default=default is not None,
        metavar="TIME",
        help="How long to wait, such as 90s or 2h." + ("" if default else " For ever by default."),
    )


def read_manifest(path: str) -> str:
    """The text of a file, or of standard input for `-`. Raises UsageError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode()
        with open(path, "rb") as file:
            return file.read().decode()
    except OSError as error:
        raise UsageError(f"cannot read {path!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path!r} is no text in UTF-8 (byte {error.start})") from error
