"""`taugrid wait`: until a job runs, or has ended."""

from __future__ import annotations

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options, output_option, timeout_option


@click.command()
@click.argument("name")
@click.option(
    "--for",
    "goal",
    type=click.Choice(["finished", "running"]),
    default="finished",
    show_default=True,
    help="What to wait for; a job that ends before it runs ends the wait as well.",
)
@timeout_option()
@output_option("table", "json", "yaml", "name")
@cluster_options
def command(
    tools: Tools, where: Where, name: str, goal: str, timeout: float | None, output: str
) -> None:
    """Wait until a job runs or has ended.

    Prints one line for each change on standard error. Ctrl-C ends the wait, never the job.
    """
    from taugrid_ray.cli.waited import wait_for
    from taugrid_ray.jobs.following import Goal
    from taugrid_ray.jobs.reading import find_job
    from taugrid_ray.jobs.target import parse_target

    target = parse_target(name)
    session = tools.connect(where)
    ref = find_job(session.api, target, session.namespace)
    wait_for(tools, session, where, ref, Goal(goal), timeout_s=timeout, output=output)
