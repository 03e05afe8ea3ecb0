"""`build`, `up`, `exec`, `down` and `status`.

Data goes to standard output, chatter to standard error. Ctrl-C and SIGTERM during `up` take down
what was started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from e2e.build import ensure_built
from e2e.cluster.cluster import Cluster, take_down
from e2e.cluster.console import Console
from e2e.cluster.extras import default_extras
from e2e.cluster.find import every_folder
from e2e.cluster.settings import (
    CLUSTERS,
    ClusterError,
    Nodes,
    Settings,
    choose_nodes,
    require_linux,
)
from e2e.nodes.host import why_not as why_no_process_nodes
from taugrid_ray.errors import TaugridError

NAME = click.option("--name", default="default", show_default=True, help="The cluster's name.")
FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where everything of it lies. Default: .e2e/NAME in the repository.",
)


@contextmanager
def reported() -> Iterator[None]:
    """Turn our errors into one message and their exit code, SIGTERM into a clean end."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except TaugridError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing is left running", err=True)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, before)


@click.command()
def build() -> None:
    """Build the cluster's programs, once; `up` does it too."""
    with reported(), Console() as console:
        require_linux()
        click.echo(ensure_built(console.say, console.step).folder)


@click.command()
@NAME
@FOLDER
@click.option(
    "--nodes",
    type=click.Choice([each.value for each in Nodes]),
    default=Nodes.AUTO.value,
    show_default=True,
    help="process: pods are real processes (needs root); fake: kwok plays them.",
)
@click.option("--bare", is_flag=True, help="Without the node agent, the pools and our controller.")
def up(name: str, folder: Path | None, nodes: str, bare: bool) -> None:
    """Start a cluster and leave it running."""
    with reported():
        with Console() as console:
            began_s = time.monotonic()
            require_linux()
            why_not = why_no_process_nodes()
            chosen = choose_nodes(Nodes(nodes), why_not)
            if why_not:
                console.say(f"{why_not}: the nodes of this cluster are fake")
            extras = () if bare else default_extras(chosen)
            settings = Settings(name=name, folder=folder, nodes=chosen, extras=extras)
            cluster = Cluster.up(settings, progress=console.say, on_build_step=console.step)
            console.say(f"kubectl: {cluster.kubectl}")
        click.echo(f"KUBECONFIG={cluster.kubeconfig}  ({time.monotonic() - began_s:.1f} s)")


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.option("--bare", is_flag=True, help="Without the pools and our controller.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(bare: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND against a new cluster with fake nodes, take the cluster down, and exit as COMMAND
    did. KUBECONFIG and TAUGRID_RAY_KUBECONFIG name the cluster."""
    with reported():
        require_linux()
        extras = () if bare else default_extras(Nodes.FAKE)
        settings = Settings(name=f"exec-{os.getpid()}", nodes=Nodes.FAKE, extras=extras)
        with (
            Console() as console,
            Cluster.up(settings, progress=console.say, on_build_step=console.step) as cluster,
        ):
            path = str(cluster.kubeconfig)
            env = {**os.environ, "KUBECONFIG": path, "TAUGRID_RAY_KUBECONFIG": path}
            code = subprocess.run(command, env=env, check=False).returncode
    sys.exit(code if code >= 0 else 128 - code)


@click.command()
@NAME
@FOLDER
@click.option("--all", "everything", is_flag=True, help="Every cluster of this repository.")
def down(name: str, folder: Path | None, everything: bool) -> None:
    """Take a cluster away: processes, links, namespaces, mounts, files. Twice is fine."""
    with reported():
        require_linux()
        folders = every_folder(CLUSTERS) if everything else [Settings(name, folder).home]
        for each in folders:
            count = take_down(each)
            click.echo(f"{each}: gone, {count} processes ended", err=True)
        if not folders:
            click.echo("no cluster is here", err=True)


@click.command()
@click.option("--name", help="One cluster; default: all of this repository.")
@FOLDER
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table")
def status(name: str | None, folder: Path | None, output: str) -> None:
    """Say which clusters there are and which of their parts run. Exit code 1 if one is not
    whole."""
    with reported():
        require_linux()
        one = Settings(name or "default", folder).home if name or folder else None
        folders = [one] if one else every_folder(CLUSTERS)
        clusters = [look(each) for each in folders]
        if output == "json":
            click.echo(json.dumps({"schemaVersion": 1, "clusters": clusters}, indent=1))
        else:
            for each in clusters:
                click.echo(table(each))
        if not all(each["running"] for each in clusters) or (one and not clusters):
            sys.exit(1)


def look(folder: Path) -> dict[str, Any]:
    try:
        cluster = Cluster.attach(folder)
    except ClusterError as error:
        return {"folder": str(folder), "running": False, "problem": error.message, "parts": []}
    parts = [
        {"name": name, "running": running, "log": str(cluster.part_log(name))}
        for name, running in cluster.parts().items()
    ]
    return {
        "name": cluster.name,
        "folder": str(folder),
        "running": bool(parts) and all(part["running"] for part in parts),
        "nodes": cluster.nodes.value,
        "kubeconfig": str(cluster.kubeconfig),
        "server": cluster.server,
        "bridge": cluster.network.bridge,
        "parts": parts,
    }


def table(cluster: dict[str, Any]) -> str:
    if "problem" in cluster:
        return f"{cluster['folder']}: {cluster['problem']}"
    word = "running" if cluster["running"] else "not whole"
    lines = [f"{cluster['name']}  {word}  nodes: {cluster['nodes']}  {cluster['server']}"]
    lines += [
        f"  {part['name']:<12} {'running' if part['running'] else 'ended  '}  {part['log']}"
        for part in cluster["parts"]
    ]
    return "\n".join([*lines, f"  KUBECONFIG={cluster['kubeconfig']}"])
