"""`python -m e2e.nodes`: serve all process nodes of a cluster until SIGTERM or Ctrl-C.

For `kubectl logs` the API server needs `--kubelet-client-certificate` and `--kubelet-client-key`
(any client certificate of the cluster's authority), and no `--kubelet-certificate-authority`.
"""

from __future__ import annotations

import fcntl
import logging
import signal
import sys
from pathlib import Path

import click

from e2e.nodes import host
from e2e.nodes.addresses import Subnet
from e2e.nodes.agent import Agent, Settings
from e2e.nodes.lifecycle import Backoff
from taugrid_ray.kube.wire import connect


@click.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), required=True)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="For the logs (pods/), which stay, and what running pods need (run/), which does not.",
)
@click.option("--bridge", required=True, help="The link that pods hang on; it must be there.")
@click.option("--bridge-address", required=True, help="Its address: where pods reach this machine.")
@click.option("--subnet", required=True, help="The pods' addresses, such as 10.244.7.0/24.")
@click.option("--api-address", required=True, help="IP:PORT where pods reach the API server.")
@click.option("--prefix", required=True, help="Of the pods' links; names the cluster.")
@click.option("--port", default=0, help="For the kubelet's API on the bridge; 0 takes a free one.")
@click.option(
    "--client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Whose certificates may read logs; without it anyone who reaches the bridge may.",
)
@click.option(
    "--restart-backoff-seconds",
    default=10.0,
    show_default=True,
    help="Before the second restart in a row of a container; doubles from there.",
)
@click.option(
    "--max-grace-seconds",
    type=float,
    help="Kill containers that long after SIGTERM, also where their pod gives them more.",
)
def main(
    *,
    kubeconfig: str,
    folder: Path,
    bridge: str,
    bridge_address: str,
    subnet: str,
    api_address: str,
    prefix: str,
    port: int,
    client_ca: Path | None,
    restart_backoff_seconds: float,
    max_grace_seconds: float | None,
) -> None:
    """Serve every Node with the annotation e2e.taugrid.io/node=process: its pods are processes."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, stream=sys.stderr)
    reason = host.why_not()
    if reason:
        click.echo(f"error: {reason}", err=True)
        sys.exit(1)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "nodes.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        click.echo(f"error: another process serves the nodes of {folder}", err=True)
        sys.exit(1)
    try:
        pods = Subnet.parse(subnet, bridge_address)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    settings = Settings(
        folder=folder,
        bridge=bridge,
        subnet=pods,
        prefix=prefix,
        api_address=api_address,
        port=port,
        client_ca=client_ca,
        backoff=Backoff(base_s=restart_backoff_seconds),
        max_grace_s=max_grace_seconds,
    )
    agent = Agent(connect(kubeconfig=kubeconfig, user_agent="process-node", pool_size=32), settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()


main()
