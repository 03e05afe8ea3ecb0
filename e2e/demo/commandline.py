"""`python -m e2e demo`."""

from __future__ import annotations

import click

from e2e.cluster import Nodes
from e2e.cluster.commandline import reported
from e2e.cluster.settings import choose_nodes, require_linux
from e2e.demo.show import show
from e2e.nodes.host import why_not


@click.command()
@click.option("--keep", is_flag=True, help="Leave the cluster up afterwards, to look around.")
@click.option("--fake", is_flag=True, help="Fake nodes, also where this machine could have real.")
def demo(keep: bool, fake: bool) -> None:
    """A real RayJob, from no nodes to SUCCEEDED, told as it happens.

    On a cluster of its own, which is taken down at the end and on Ctrl-C.
    """
    with reported():
        require_linux()
        why = "asked for with --fake" if fake else why_not()
        show(nodes=choose_nodes(Nodes.AUTO, why), why_fake=why, keep=keep)
