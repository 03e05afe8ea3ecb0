"""Kill the controller at the n-th write it makes, and start it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e import installation
from e2e.cluster.extras import CONTROLLER
from e2e.relay import Cut, Relay
from e2e.scenarios.stage import Stage
from taugrid_ray.kinds.resource import LEASE


def _counts(method: str, path: str) -> bool:
    """Every write but the lease's."""
    return f"/{LEASE.plural}" not in path


@contextmanager
def through_relay(stage: Stage) -> Iterator[Relay]:
    """The controller talks to the API server through a relay while the block runs."""
    cluster = stage.cluster
    own = installation.controllers_kubeconfig(cluster)
    relay = Relay(cluster.server, own, counts=_counts)
    from_s = time.time()
    cluster.stop_part(CONTROLLER.name)
    kubeconfig = relay.write_kubeconfig(cluster.folder / f"relay-{stage.name}.kubeconfig")
    installation.start_controller(cluster, kubeconfig=kubeconfig)
    stage.down.append((from_s, time.time()))
    try:
        yield relay
    finally:
        cluster.kill_part(CONTROLLER.name)
        relay.close()
        kubeconfig.unlink()
        installation.start_controller(cluster)


class Life:
    """A stretch of a scenario in which the controller dies once, at the cut.

    Its waits see to it that the controller is started again.
    """

    def __init__(self, stage: Stage, relay: Relay, name: str, cut: Cut) -> None:
        self._stage, self._relay, self.name, self._cut = stage, relay, name, cut
        self._died = threading.Event()
        self._from_s = time.time()
        self.has_died = False
        """Did the cut come at all? A life with fewer writes does not reach it."""
        relay.arm(cut, self._crash)

    @property
    def writes(self) -> int:
        return len(self._relay.writes)

    def until(self, what: str, holds: Callable[[], object], timeout_s: float) -> None:
        def holds_or_restart() -> object:
            self._restart_if_dead()
            return holds()

        self._stage.wait_for(f"{self.name}: {what}", holds_or_restart, timeout_s)

    def _crash(self) -> None:
        self._stage.cluster.kill_part(CONTROLLER.name)
        self._died.set()

    def _restart_if_dead(self) -> None:
        if not self._died.is_set():
            return
        self._died.clear()
        self.has_died = True
        self._relay.arm(None, lambda: None)
        self._stage.cluster.start_part_again(CONTROLLER.name)
        self._stage.down.append((self._from_s, time.time()))
        where = f"{'before' if self._cut.before else 'after'} write {self._cut.at}"
        self._stage.say(f"{self.name}: killed {where}, started again")
