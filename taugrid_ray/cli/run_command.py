"""`taugrid run job|ray`: make a job from a manifest, and wait for it if asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taugrid_ray.cli.options import (
    Tools,
    Where,
    cluster_options,
    output_option,
    read_manifest,
    timeout_option,
)
from taugrid_ray.cli.screen import say, show, show_obj
from taugrid_ray.errors import UsageError
from taugrid_ray.kinds.resource import JOB, RAY_JOB, Resource

if TYPE_CHECKING:
    from taugrid_ray.jobs.submitting import Submission, Submitted


@click.group()
def command() -> None:
    """Start a Job or RayJob from a manifest.

    The manifest is read as a gang first: one that could not start is refused with one sentence and
    exit code 2, and nothing is made. Running the same file twice makes nothing twice: the second
    time finds the job of the first.
    """


def _run(
    tools: Tools,
    where: Where,
    kind: Resource,
    *,
    file: str,
    queue: str,
    dry_run: str,
    wait: bool,
    timeout: float | None,
    output: str,
) -> None:
    from taugrid_ray.jobs.submitting import in_namespace, prepare, submit

    if timeout is not None and not wait:
        raise UsageError("--timeout is for waiting: give --wait as well")
    source = "standard input" if file == "-" else file
    text = read_manifest(file)
    drafted = prepare(text, kind, source=source, namespace=where.namespace, queue=queue)
    _tell(drafted)
    if dry_run == "client":
        known = in_namespace(drafted, "") if drafted.namespace else drafted
        show_obj(known.obj, "json" if output == "json" else "yaml")
        return
    session = tools.connect(where)
    submission = in_namespace(drafted, session.namespace)
    done = submit(session.api, submission, dry_run=dry_run == "server")
    if dry_run == "server":
        show_obj(done.obj, "json" if output == "json" else "yaml")
        return
    _made(done, where, wait=wait)
    if wait:
        from taugrid_ray.cli.waited import wait_for
        from taugrid_ray.jobs.following import Goal

        wait_for(tools, session, where, done.ref, Goal.FINISHED, timeout_s=timeout, output=output)
    elif output in ("json", "yaml"):
        from taugrid_ray.jobs.reading import look_at
        from taugrid_ray.jobs.report import report_of
        from taugrid_ray.jobs.state import state_of

        seen = look_at(session.api, done.ref).seen
        show_obj(report_of(seen, state_of(seen, tools.clock.now_s())), output)
    elif output == "name":
        show(done.ref.target)
    else:
        show(f"{done.ref.target} {'created' if done.is_new else 'unchanged'}")


def _tell(submission: Submission) -> None:
    gang = submission.gang
    groups = "; ".join(group.describe() for group in gang.groups if group.count)
    if groups:
        say(f"asks for {groups}")
    for note in submission.notes:
        say(f"note: {note.message}" + (f" ({note.field})" if note.field else ""))


def _made(done: Submitted, where: Where, *, wait: bool) -> None:
    if not done.is_new:
        say(f"{done.ref.shown} is there already, made from this manifest; nothing new was made")
    if not wait:
        say(f"wait for it with: {where.command('wait', done.ref)}")


def _command(name: str, kind: Resource, help_: str) -> None:
    @command.command(name, help=help_)
    @click.option(
        "-f", "--file", required=True, metavar="FILE", help="The manifest; - for standard input."
    )
    @click.option("--queue", default="", help="LocalQueue, where the manifest names none.")
    @click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        help="Print the object: client asks nobody, server asks the API server.",
    )
    @click.option("--wait", is_flag=True, help="Wait until it has ended.")
    @timeout_option()
    @output_option("table", "json", "yaml", "name")
    @cluster_options
    def made(
        tools: Tools,
        where: Where,
        file: str,
        queue: str,
        dry_run: str,
        wait: bool,
        timeout: float | None,
        output: str,
    ) -> None:
        _run(
            tools,
            where,
            kind,
            file=file,
            queue=queue,
            dry_run=dry_run,
            wait=wait,
            timeout=timeout,
            output=output,
        )


_command("job", JOB, "Start a batch Job from a manifest.")
_command("ray", RAY_JOB, "Start a RayJob from a manifest.")
