"""`python -m e2e`: one group, whose commands are imported only when they are used."""

from __future__ import annotations

import importlib
import importlib.util

import click
from typing_extensions import override

# Command -> module and the click command in it. One whose module is not there is not offered.
COMMANDS = {
    "build": ("e2e.cluster.commandline", "build"),
    "up": ("e2e.cluster.commandline", "up"),
    "exec": ("e2e.cluster.commandline", "exec_"),
    "down": ("e2e.cluster.commandline", "down"),
    "status": ("e2e.cluster.commandline", "status"),
    "list": ("e2e.scenarios.commandline", "list_scenarios"),
    "run": ("e2e.scenarios.commandline", "run"),
    "bench": ("e2e.bench.commandline", "bench"),
    "demo": ("e2e.demo.commandline", "demo"),
}


class LazyGroup(click.Group):
    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if _is_there(module)]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, attribute = COMMANDS.get(cmd_name, ("", ""))
        if not module or not _is_there(module):
            return None
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A local Kubernetes cluster of real parts, without containers, and what runs on it."""


if __name__ == "__main__":
    main(prog_name="python -m e2e")
