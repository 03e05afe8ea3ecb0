"""`python -m e2e.pools --kubeconfig FILE [--loop-seconds 1]`: runs until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

import click

from e2e.pools.shell import WRITERS, Shell
from taugrid_ray.errors import TaugridError
from taugrid_ray.kube import wire
from taugrid_ray.kube.clock import SystemClock

WATCHES = 5


@click.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), required=True)
@click.option(
    "--loop-seconds",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    help="Pause between two loops; the real autoscaler's scan interval is 10.",
)
def main(kubeconfig: str, loop_seconds: float) -> None:
    """Play Cluster Autoscaler and its cloud for the cluster behind KUBECONFIG.

    Pools are set in the ConfigMap kube-system/e2e-pools, key "pools"; what became of them is in
    kube-system/e2e-pools-status.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    try:
        api = wire.connect(
            kubeconfig=kubeconfig, user_agent="e2e-pools", pool_size=WRITERS + WATCHES + 1
        )
        seed = os.urandom(8).hex()
        Shell(api, clock=SystemClock(), seed=seed, loop_s=loop_seconds).run(stop)
    except TaugridError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
