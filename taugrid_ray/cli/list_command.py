"""`taugrid list`: the jobs of a namespace, or of all."""

from __future__ import annotations

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options, output_option
from taugrid_ray.cli.screen import ago, say, show, show_obj, table
from taugrid_ray.errors import UsageError


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="Of all namespaces.")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@output_option("table", "wide", "json", "yaml", "name")
@cluster_options
def command(tools: Tools, where: Where, all_namespaces: bool, active: bool, output: str) -> None:
    """List the jobs of a namespace.

    These are the Jobs and RayJobs with a queue; wide adds the sentence that says why each stands
    where it stands.
    """
    from taugrid_ray.jobs.reading import look_at_all
    from taugrid_ray.jobs.report import list_report
    from taugrid_ray.jobs.state import state_of

    if all_namespaces and where.namespace:
        raise UsageError("--all-namespaces and --namespace cannot both be given")
    session = tools.connect(where)
    now_s = tools.clock.now_s()
    found, missing = look_at_all(session.api, None if all_namespaces else session.namespace)
    jobs = [(seen, state_of(seen, now_s)) for seen in found]
    if active:
        jobs = [(seen, state) for seen, state in jobs if not state.is_final]
    for plural, why in missing.items():
        say(f"note: {plural} could not be read: {why}")
    if output in ("json", "yaml"):
        show_obj(list_report(jobs), output)
        return
    if output == "name":
        for seen, _ in jobs:
            show(seen.ref.target)
        return
    if not jobs:
        say(
            "no jobs with a queue"
            + ("" if all_namespaces else f' in namespace "{session.namespace}"')
        )
        return
    heads = ("NAME", "QUEUE", "STAGE", "REASON", "PODS", "AGE")
    rows = [heads + (("WHY",) if output == "wide" else ())]
    for seen, state in jobs:
        counts, meta = state.pods, seen.job.meta if seen.job is not None else None
        total = max(counts.expected, counts.created) if counts is not None else 0
        row = (
            seen.ref.target,
            state.queue or "-",
            state.outcome.value if state.outcome is not None else state.stage.value,
            state.reason,
            f"{counts.ready}/{total}" if counts is not None else "?",
            ago(now_s - meta.created_at_s) if meta is not None and meta.created_at_s else "-",
        )
        rows.append(row + ((state.sentence,) if output == "wide" else ()))
    if all_namespaces:
        spaces = ["NAMESPACE", *(seen.ref.namespace for seen, _ in jobs)]
        rows = [(space, *row) for space, row in zip(spaces, rows, strict=True)]
    for line in table(rows):
        show(line)
