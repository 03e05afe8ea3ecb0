"""Run scenarios on a cluster, one after the other, and say what came of each."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import installation
from e2e.cluster import Cluster, Nodes, Settings
from e2e.cluster.settings import REPOSITORY
from e2e.nodes.host import why_not
from e2e.scenarios.record import Record
from e2e.scenarios.registry import Scenario
from e2e.scenarios.rules import Account, Finding, check_all
from e2e.scenarios.stage import Failed, Stage
from taugrid_ray.errors import TaugridError
from taugrid_ray.kinds.resource import Obj

FAILED = REPOSITORY / ".e2e-failed"
"""By scenario: what the watch told, and the logs of the cluster's parts."""
SCHEMA_VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Result:
    scenario: Scenario
    passed: bool
    seconds: float
    timeline: tuple[tuple[float, str], ...] = ()
    leftovers: tuple[str, ...] = ()
    rules: tuple[Finding, ...] = ()
    figures: tuple[tuple[str, float], ...] = ()
    why: str = ""
    not_run: str = ""

    def as_json(self) -> Obj:
        return {
            "schemaVersion": SCHEMA_VERSION,
            "scenario": self.scenario.name,
            "says": self.scenario.says,
            "outcome": "not-run" if self.not_run else "passed" if self.passed else "failed",
            "passed": self.passed,
            "seconds": round(self.seconds, 1),
            "timeline": [{"at_s": round(at_s, 2), "what": what} for at_s, what in self.timeline],
            "leftovers": list(self.leftovers),
            "rules": [
                {"rule": f.rule, "says": f.says, "held": f.held, "breaches": list(f.breaches)}
                for f in self.rules
            ],
            "figures": dict(self.figures),
            "why": self.why or self.not_run,
        }


def run_on(cluster: Cluster, record: Record, scenario: Scenario) -> Result:
    stage = Stage(scenario.name, cluster, record)
    why = ""
    left: list[str] = []
    try:
        stage.open()
        scenario.play(stage)
    except (Failed, TaugridError) as fault:
        why = fault.message
    except Exception:  # noqa: BLE001 - a broken scenario is a failed one, and says where
        why = traceback.format_exc(limit=-3)
    acted_until_s = time.time()
    findings: tuple[Finding, ...] = ()
    try:
        left = stage.close()
        account = Account(
            record.since(stage.mark), time.time(), stage.check, stage.provision_s, tuple(stage.down)
        )
        findings = check_all(_of(account, stage.namespace))
    except TaugridError as fault:
        why = why or f"cleaning up: {fault.message}"
    record.save(_record_of(cluster, scenario.name), stage.mark)
    passed = not why and not left and all(f.held for f in findings)
    if not passed:
        _keep(cluster, scenario.name)
    return Result(
        scenario,
        passed,
        acted_until_s - stage.started_at_s,
        tuple(stage.timeline),
        tuple(left),
        findings,
        tuple(stage.figures.items()),
        why,
    )


def _record_of(cluster: Cluster, scenario: str) -> Path:
    return cluster.folder / f"record-{scenario}.jsonl"


def _keep(cluster: Cluster, scenario: str) -> None:
    """The cluster's folder goes away with it; what tells why a scenario failed stays."""
    folder = FAILED / scenario
    folder.mkdir(parents=True, exist_ok=True)
    parts = [cluster.part_log(name) for name in cluster.parts()]
    for file in (_record_of(cluster, scenario), *parts):
        if file.exists():
            shutil.copy(file, folder)


def _of(account: Account, namespace: str) -> Account:
    own = tuple(seen for seen in account.changes if seen.key.namespace == namespace)
    return Account(own, account.ended_at_s, account.check, account.provision_s, account.down)


def run_all(
    wanted: Sequence[Scenario],
    *,
    name: str,
    progress: Callable[[str], None],
    done: Callable[[Result], None],
) -> None:
    """Each kind of nodes gets one cluster of its own, up only while it is needed."""
    for nodes in (Nodes.FAKE, Nodes.PROCESS):
        group = [s for s in wanted if s.nodes is nodes]
        missing = why_not() if nodes is Nodes.PROCESS else ""
        if missing:
            for scenario in group:
                done(Result(scenario, False, 0.0, not_run=missing))
            continue
        if not group:
            continue
        settings = Settings(name=f"{name}-{nodes.value}", nodes=nodes)
        with Cluster.up(settings, progress=progress) as cluster:
            installation.install(cluster)
            record = Record(cluster.api)
            record.start()
            for scenario in group:
                progress(f"{scenario.name}: {scenario.says}")
                done(run_on(cluster, record, scenario))
            record.stop()
