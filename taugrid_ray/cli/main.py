"""The `taugrid` command: which commands there are, and what an error looks like.

Each command is a module of its own, imported when it is called or when its own help is asked for:
`taugrid --help` imports click and this module. Every expected error is one line on standard error
and an exit code of `taugrid_ray.errors`; a traceback is a bug of ours.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Any

import click
from typing_extensions import override

from taugrid_ray.cli.screen import one_line, say
from taugrid_ray.errors import Detached, TaugridError

COMMANDS: dict[str, str] = {
    "run": "Start a Job or RayJob from a manifest.",
    "status": "Say where a job stands, why, and what to do next.",
    "wait": "Wait until a job runs or has ended.",
    "cancel": "Delete a job and wait until nothing of it is left.",
    "resume": "Start a parked job again, with the first attempt.",
    "logs": "Print what a job's program prints.",
    "list": "List the jobs of a namespace.",
    "version": "Print the version.",
}
"""Name -> one line of help: the group's help is made without importing the commands."""


class Commands(click.Group):
    """A group whose commands are imported when they are needed."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"taugrid_ray.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(_unknown(args[0]))
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    @override
    def main(self, *args: Any, **given: Any) -> Any:
        """Run and exit. The exit code is what a command returns, or its error's."""
        given["standalone_mode"] = False
        try:
            code = super().main(*args, **given)
            sys.stdout.flush()
        except click.ClickException as error:
            code = _tell(error.format_message(), _usage_hint(error), 2)
        except TaugridError as error:
            code = _tell(error.message, error.hint, error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            code = _tell("interrupted", "", Detached.exit_code)
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            code = _reader_is_gone()
        sys.exit(code if isinstance(code, int) else 0)


def _unknown(word: str) -> str:
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    return f"no command {word!r}" + (f"; did you mean {near[0]}?" if near else "")


def _usage_hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{error.ctx.command_path} --help"
    return ""


def _tell(message: str, hint: str, code: int) -> int:
    if message:
        say(f"taugrid: {one_line(message)}" + (f" ({one_line(hint)})" if hint else ""))
    return code


def _reader_is_gone() -> int:
    """`taugrid list | head`: nothing more to say, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(package_name="taugrid-ray", message="%(version)s")
def main() -> None:
    """Ray and batch jobs that start only with quota and booked capacity.

    NAME is a job's name, or job/NAME or rayjob/NAME where both exist. Data goes to standard output,
    everything else to standard error.

    \b
    Exit codes:
      0    done, or the job succeeded
      1    an error
      2    a wrong command line or manifest
      124  the wait is over, the job lives on
      125  the job failed, gave up, was refused or was deleted
      130  interrupted; a job that was waited for lives on
    """
