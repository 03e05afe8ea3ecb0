"""`python -m controllers`: flags -> objects -> run until SIGTERM."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import uuid
from types import FrameType
from typing import Any

import click
from typing_extensions import override

from controllers.health import serve
from controllers.lease import Elector
from controllers.runtime import Runtime
from taugrid_ray import __version__
from taugrid_ray.errors import TaugridError
from taugrid_ray.kinds.meta import format_micro_time
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.wire import connect


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, message, and the fields key, kind, reason."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": format_micro_time(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        for name in ("key", "kind", "reason"):
            if hasattr(record, name):
                line[name] = str(getattr(record, name))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


@click.command(context_settings={"auto_envvar_prefix": "TAUGRID_RAY"})
@click.option("--kubeconfig", type=click.Path(exists=True), help="Default: as kubectl finds it.")
@click.option("--health-address", default="0.0.0.0", show_default=True)
@click.option("--health-port", type=int, default=8080, show_default=True)
@click.option("--lease-namespace", default="taugrid-ray", show_default=True)
@click.option("--lease/--no-lease", "with_lease", default=True, show_default=True)
@click.option(
    "--identity",
    default="",
    help="Who holds the lease: the pod's name. After a crash the same one goes on at once, so no "
    "two that run may share it. Default: the host's name and a random part.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info")
@click.version_option(__version__)
def main(
    kubeconfig: str | None,
    health_address: str,
    health_port: int,
    lease_namespace: str,
    with_lease: bool,
    identity: str,
    log_level: str,
) -> None:
    """Book capacity for what Kueue admits, before it starts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    identity = identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    clock = SystemClock()
    try:
        api = connect(kubeconfig=kubeconfig, user_agent=f"taugrid-ray/{__version__}", pool_size=40)
        elector = None
        if with_lease:
            quick = api.within(connect_s=2.0, read_s=4.0, patience_s=2.0)
            elector = Elector(quick, clock, me=identity, namespace=lease_namespace)
    except TaugridError as error:
        raise click.ClickException(error.message) from error
    runtime = Runtime(api, clock, identity=identity, elector=elector)
    server = serve(runtime, health_address, health_port)

    def end(number: int, frame: FrameType | None) -> None:
        runtime.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    logging.getLogger("controllers").info(
        "started, health on port %d", server.server_port, extra={"key": identity}
    )
    runtime.run()
    server.shutdown()
    if runtime.lost_lease:
        logging.getLogger("controllers").error("lost the lease", extra={"key": identity})
        sys.stderr.flush()
        # Calls of a thread that hangs must not outlive our right to make them.
        os._exit(1)


if __name__ == "__main__":
    main()
