"""A wait from its first line to its exit code: for `wait`, and for --wait elsewhere."""

from __future__ import annotations

from taugrid_ray.cli.options import Session, Tools, Where
from taugrid_ray.cli.progress import follower, progress
from taugrid_ray.cli.screen import show, show_obj
from taugrid_ray.errors import Detached
from taugrid_ray.jobs.following import Followed, Goal, error_of
from taugrid_ray.jobs.observed import JobRef
from taugrid_ray.jobs.reading import look_at
from taugrid_ray.jobs.report import report_of


def wait_for(
    tools: Tools,
    session: Session,
    where: Where,
    ref: JobRef,
    goal: Goal,
    *,
    timeout_s: float | None,
    output: str,
) -> None:
    """Follow the job to its goal and print how it stands.

    Raises JobEnded where it ended badly, WaitTimedOut, or Detached after Ctrl-C with the command
    that goes on.
    """
    try:
        with progress(tools) as shown:
            found = follower(tools, session.api, shown).until(ref, goal, timeout_s=timeout_s)
    except KeyboardInterrupt:
        raise Detached(
            f"detached; {ref.shown} is untouched and goes on; come back with: "
            f"{where.command('wait', ref)}"
        ) from None
    _print(session, found, output)
    bad = error_of(found.state)
    if bad is not None:
        raise bad


def _print(session: Session, found: Followed, output: str) -> None:
    state = found.state
    if output in ("json", "yaml"):
        seen = found.seen
        if seen.job is not None:
            whole = look_at(session.api, state.ref).seen
            seen = whole if whole.job is not None else seen
        show_obj(report_of(seen, state), output)
    elif output == "name":
        show(state.ref.target)
    elif state.outcome is None or not error_of(state):
        said = state.outcome.value if state.outcome is not None else state.stage.value
        show(f"{state.ref.shown}: {said}: {state.sentence}")
