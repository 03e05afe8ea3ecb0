"""`taugrid logs`: what a job's program prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator

import click

from taugrid_ray.cli.options import Tools, Where, cluster_options
from taugrid_ray.cli.screen import say
from taugrid_ray.errors import Detached, TaugridError, UsageError

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]"
)
"""Control sequences (colours, cursor), strings (title, links, clipboard), and short ones."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def for_terminal(line: bytes) -> str:
    """A line of a program as text that can do nothing to a terminal. A progress bar's carriage
    returns become line breaks."""
    text = _ESCAPES.sub("", line.decode("utf-8", "replace"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes cut after line breaks, so that no character and no escape is cut in two."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest


def printer() -> Callable[[bytes], None]:
    """Prints harmless text on a terminal, the very bytes anywhere else."""
    if sys.stdout.isatty():
        return lambda line: click.echo(for_terminal(line), nl=False)

    def copy(line: bytes) -> None:
        click.echo(line, nl=False)

    return copy


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the program has ended.")
@click.option("--tail", type=click.IntRange(min=0), default=None, help="Only the last lines.")
@click.option("--pod", default="", help="A certain pod of the job.")
@click.option("-c", "--container", default="", help="A certain container of the pod.")
@click.option("--previous", is_flag=True, help="The container's run before its last restart.")
@cluster_options
def command(
    tools: Tools,
    where: Where,
    name: str,
    follow: bool,
    tail: int | None,
    pod: str,
    container: str,
    previous: bool,
) -> None:
    """Print what a job's program prints.

    A RayJob's program is read from its submitter pod, or from the head where there is none; a Job
    from its first pod that runs. With --follow, waits for a job that has not started, goes on after
    a cut connection and with the pod that replaces a failed one, and exits with 125 if the job
    failed.
    """
    from taugrid_ray.cli.progress import follower, progress
    from taugrid_ray.jobs.following import error_of
    from taugrid_ray.jobs.printed import LogReader, NotYet, Source, Wanted, source_of
    from taugrid_ray.jobs.reading import find_job, look_at
    from taugrid_ray.jobs.state import state_of
    from taugrid_ray.jobs.target import parse_target

    if follow and previous:
        raise UsageError("--previous has ended: leave out --follow")
    target = parse_target(name)
    session = tools.connect(where)
    ref = find_job(session.api, target, session.namespace)
    wanted = Wanted(pod, container)
    emit = printer()

    def on_source(source: Source) -> None:
        more = f", one of {source.others + 1} that print; --pod NAME for another"
        say(f"pod {source.pod.name}{more if source.others else ''}")

    if follow:
        try:
            with progress(tools, live_line=False) as shown:
                reader = LogReader(
                    follower(tools, session.api, shown), session.logs, emit, on_source
                )
                state = reader.follow(ref, wanted, tail_lines=tail)
        except KeyboardInterrupt:
            raise Detached(
                f"not following any more; {ref.shown} is untouched and goes on; come back with: "
                f"{where.command('logs', ref)} -f"
            ) from None
        bad = error_of(state)
        if bad is not None:
            raise bad
        return
    seen = look_at(session.api, ref).seen
    source = source_of(seen, wanted)
    if isinstance(source, NotYet):
        state = state_of(seen, tools.clock.now_s())
        raise TaugridError(
            f"{ref.shown} has printed nothing: {source.why}; {state.sentence}",
            hint=f"wait for it with: {where.command('logs', ref)} -f",
        )
    on_source(source)
    pieces = session.logs.logs(
        source.pod.name,
        ref.namespace,
        container=source.container,
        tail_lines=tail,
        previous=previous,
    )
    for line in whole_lines(pieces):
        emit(line)
