"""`taugrid status`: where a job stands, why, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options, output_option
from taugrid_ray.cli.screen import ago, say, show, show_obj

if TYPE_CHECKING:
    from taugrid_ray.jobs.model import JobState
    from taugrid_ray.jobs.observed import Observed


@click.command()
@click.argument("name")
@output_option("table", "json", "yaml", "name")
@cluster_options
def command(tools: Tools, where: Where, name: str, output: str) -> None:
    """Say where a job stands, why, and what to do next."""
    from taugrid_ray.jobs.reading import find_job, look_at
    from taugrid_ray.jobs.report import report_of
    from taugrid_ray.jobs.state import state_of
    from taugrid_ray.jobs.target import parse_target

    target = parse_target(name)
    session = tools.connect(where)
    ref = find_job(session.api, target, session.namespace)
    now_s = tools.clock.now_s()
    seen = look_at(session.api, ref).seen
    state = state_of(seen, now_s)
    if output in ("json", "yaml"):
        show_obj(report_of(seen, state), output)
    elif output == "name":
        show(ref.target)
    else:
        for line in lines_of(seen, state, now_s):
            show(line)
        for part, why in state.unavailable.items():
            say(f"note: {part.value} could not be read: {why}")


def lines_of(seen: Observed, state: JobState, now_s: float) -> list[str]:
    """The answer for people; the first two lines say it, the rest is where to look."""
    from taugrid_ray.jobs.phases import phases_of
    from taugrid_ray.sentences import plural

    stage = state.outcome.value if state.outcome is not None else state.stage.value
    since = f", {ago(now_s - state.since_s)}" if state.since_s else ""
    lines = [f"{state.ref.shown}: {stage} ({state.reason}{since})", f"  {state.sentence}"]
    rows = [("queue", state.queue or "none"), ("attempt", str(state.attempt))]
    if state.growth:
        rows.append(("growth", state.growth))
    rows += [("capacity", words) for words in _requests(seen)]
    if state.pods is not None:
        counts = state.pods
        total = max(counts.expected, counts.created)
        on = f" on {plural(counts.nodes, 'node')}" if counts.nodes else ""
        ended = f", {counts.ended} ended" if counts.ended else ""
        words = f"{counts.ready} of {total} ready{on}{ended}" if total else "none"
        rows.append(("pods", words))
    rows += [
        (
            p.name,
            p.mark.value + (f": {p.detail}" if p.detail and p.detail != state.sentence else ""),
        )
        for p in phases_of(seen, state)
    ]
    if state.hint:
        rows.append(("next", state.hint))
    wide = max(len(name) for name, _ in rows)
    return [*lines, *(f"  {name:<{wide}}  {words}" for name, words in rows)]


def _requests(seen: Observed) -> list[str]:
    from taugrid_ray.jobs.asked import asked_of, said
    from taugrid_ray.sentences import plural

    return [
        f'request "{a.name}": {plural(a.pods, "pod")} in pool "{a.pool}": {said(a)}'
        for a in asked_of(seen.requests or ())
    ]
