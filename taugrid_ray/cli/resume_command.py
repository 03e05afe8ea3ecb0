"""`taugrid resume`: start a parked job again."""

from __future__ import annotations

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options, output_option, timeout_option
from taugrid_ray.cli.screen import say, show, show_obj
from taugrid_ray.errors import UsageError


@click.command()
@click.argument("name")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@timeout_option()
@output_option("table", "json", "yaml", "name")
@cluster_options
def command(
    tools: Tools, where: Where, name: str, wait: bool, timeout: float | None, output: str
) -> None:
    """Start a parked job again, with the first attempt.

    For a job that gave up, that waits for its next attempt, or that somebody made inactive. One
    that is not parked is left as it is.
    """
    from taugrid_ray.jobs.reading import find_job
    from taugrid_ray.jobs.resuming import resume
    from taugrid_ray.jobs.target import parse_target

    if timeout is not None and not wait:
        raise UsageError("--timeout is for waiting: give --wait as well")
    target = parse_target(name)
    session = tools.connect(where)
    ref = find_job(session.api, target, session.namespace)
    done = resume(session.api, ref, now_s=tools.clock.now_s())
    if not done.changed:
        say(
            f"{ref.shown} is not parked: {done.state.stage.value}: {done.state.sentence}; "
            "nothing was changed"
        )
    if wait:
        from taugrid_ray.cli.waited import wait_for
        from taugrid_ray.jobs.following import Goal

        wait_for(tools, session, where, ref, Goal.FINISHED, timeout_s=timeout, output=output)
        return
    say(f"wait for it with: {where.command('wait', ref)}")
    if output in ("json", "yaml"):
        from taugrid_ray.jobs.reading import look_at
        from taugrid_ray.jobs.report import report_of
        from taugrid_ray.jobs.state import state_of

        seen = look_at(session.api, ref).seen
        show_obj(report_of(seen, state_of(seen, tools.clock.now_s())), output)
    elif output == "name":
        show(ref.target)
    else:
        show(f"{ref.target} {'resumed' if done.changed else 'unchanged'}")
