"""An admission check that says Ready at once and asks for nothing: the floor for any check that is
made outside Kueue. A process of its own, with as many connections as our controller has.
"""

from __future__ import annotations

import argparse
import queue
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Thread

from taugrid_ray.errors import Conflict, NotFound
from taugrid_ray.kinds.meta import format_time
from taugrid_ray.kinds.resource import WORKLOAD
from taugrid_ray.kinds.workload import CheckState, Workload, parse_workload
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.delta import Delta, Listed
from taugrid_ray.kube.reflector import Reflector
from taugrid_ray.kube.wire import connect

WRITERS = 16


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.oracle")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--check", required=True)
    wanted = parser.parse_args()
    clock = SystemClock()
    wire = connect(kubeconfig=wanted.kubeconfig, user_agent="oracle", pool_size=WRITERS + 4)
    with closing(wire) as api:
        changes: queue.SimpleQueue[Delta[Workload] | Listed] = queue.SimpleQueue()
        pause = Event()
        reflector = Reflector(api, WORKLOAD, parse_workload, changes.put, clock=clock)

        def follow() -> None:
            while True:
                pause.wait(reflector.step().wait_s)

        Thread(target=follow, daemon=True).start()
        with ThreadPoolExecutor(WRITERS) as writers:
            while True:
                change = changes.get()
                if isinstance(change, Delta) and change.new is not None:
                    workload = change.new
                    check = workload.check(wanted.check)
                    if check and check.state is CheckState.PENDING and workload.reservation:
                        writers.submit(say_ready, api, workload, wanted.check, clock.now_s())


def say_ready(api: KubeApi, workload: Workload, name: str, now_s: float) -> None:
    check = workload.check(name)
    assert check is not None
    place = f"/status/admissionChecks/{check.index}"
    entry = {
        "name": name,
        "state": "Ready",
        "lastTransitionTime": format_time(now_s),
        "message": "the oracle says yes",
    }
    patch = [
        {"op": "test", "path": f"{place}/name", "value": name},
        {"op": "test", "path": f"{place}/state", "value": "Pending"},
        {"op": "replace", "path": place, "value": entry},
    ]
    try:
        api.patch(
            WORKLOAD,
            workload.meta.name,
            patch,
            workload.meta.namespace,
            how=Patch.JSON,
            sub="status",
        )
    except (Conflict, NotFound):
        return  # Told before, or gone: the next change says.


if __name__ == "__main__":
    main()
