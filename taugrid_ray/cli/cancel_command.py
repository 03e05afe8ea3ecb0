"""`taugrid cancel`: delete a job, and wait until nothing of it is left."""

from __future__ import annotations

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options, output_option, timeout_option
from taugrid_ray.cli.screen import say, show, show_obj
from taugrid_ray.errors import Detached, NotFound


@click.command()
@click.argument("name")
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until all of it is gone."
)
@timeout_option("12m")
@output_option("table", "json", "name")
@cluster_options
def command(tools: Tools, where: Where, name: str, wait: bool, timeout: float, output: str) -> None:
    """Delete a job and wait until nothing of it is left.

    Gone means: the job, its Workload (and so its quota), its Ray cluster and its pods. A job that
    is not there is no error, so a cancel may be repeated.
    """
    from taugrid_ray.cli.progress import progress
    from taugrid_ray.jobs.cancelling import Canceller, listed
    from taugrid_ray.jobs.reading import find_job
    from taugrid_ray.jobs.target import parse_target

    target = parse_target(name)
    session = tools.connect(where)
    try:
        ref = find_job(session.api, target, session.namespace)
    except NotFound as nothing:
        hint = f" ({nothing.hint})" if nothing.hint.startswith("did you mean") else ""
        say(f"{nothing.message}: nothing to cancel{hint}")
        if output == "json":
            show_obj(
                {"name": target.name, "namespace": session.namespace, "deleted": False}, "json"
            )
        return
    try:
        with progress(tools) as shown:
            told: list[tuple[str, ...]] = []

            def on_left(left: tuple[str, ...]) -> None:
                if left and left not in told:
                    told.append(left)
                    shown.display.print(f"      waits for {listed(left)}")
                shown.display.now(f"{ref.shown}: ending")

            canceller = Canceller(session.api, tools.clock, tools.sleep, on_left, shown.trouble)
            canceller.cancel(ref, timeout_s=timeout if wait else None)
    except KeyboardInterrupt:
        raise Detached(
            f"not waiting any more; {ref.shown} is being deleted all the same; look with: "
            f"{where.command('cancel', ref)}"
        ) from None
    if output == "json":
        done = {"name": ref.name, "namespace": ref.namespace, "kind": ref.kind.kind}
        show_obj({**done, "deleted": True, "gone": wait}, "json")
    elif output == "name":
        show(ref.target)
    elif wait:
        show(f"{ref.target} is gone")
    else:
        show(f"{ref.target} is being deleted; its pods and its quota may still be held")
