"""The group: help, errors, exit codes, and what is imported for them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module, metadata

import click
import pytest
from click.testing import CliRunner

import taugrid_ray
from taugrid_ray import errors
from taugrid_ray.cli.main import COMMANDS, main
from taugrid_ray.cli.progress import Changes, line_of
from taugrid_ray.cli.screen import ago, one_line, table
from taugrid_ray.jobs.state import state_of
from tests.cli.conftest import World
from tests.jobs.builders import T0, job, seen

HEAVY = ("kubernetes", "rich", "urllib3", "yaml", "pydantic", "tenacity", "ray", "asyncio")


def _imported(code: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["version"], ["status", "--help"], ["run", "ray", "--help"]]
)
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    code = (
        "from taugrid_ray.cli.main import main\n"
        f"try: main({args!r})\n"
        "except SystemExit as end: assert not end.code"
    )
    assert not _imported(code) & set(HEAVY)


def test_the_groups_help_imports_no_command() -> None:
    code = "from taugrid_ray.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    script = f"import sys\n{code}\nprint(*[m for m in sys.modules if m.endswith('_command')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines()[-1] == ""


def test_the_table_of_commands_says_what_their_own_help_says() -> None:
    for name, said in COMMANDS.items():
        command = import_module(f"taugrid_ray.cli.{name}_command").command
        assert isinstance(command, click.Command)
        assert command.get_short_help_str(limit=200) == said


def test_every_option_has_a_help() -> None:
    def walk(command: click.Command) -> None:
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (command.name, parameter.name)
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                assert found is not None
                walk(found)

    walk(main)


def test_the_version_is_the_packages(world: World) -> None:
    assert world.run("version").stdout == f"taugrid {taugrid_ray.__version__}\n"
    assert world.run("--version").stdout.strip() == metadata.version("taugrid-ray")
    assert json.loads(world.run("version", "-o", "json").stdout)["version"] == (
        taugrid_ray.__version__
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["ststus"], "no command 'ststus'; did you mean status? (taugrid --help)"),
        (["status"], "Missing argument 'NAME'. (taugrid status --help)"),
        (["status", "x", "--nope"], "No such option '--nope'."),
        (["wait", "x", "--for", "ever"], "Invalid value for '--for'"),
        (["run", "job"], "Missing option '-f' / '--file'. (taugrid run job --help)"),
        (["run", "cluster", "-f", "x"], "No such command 'cluster'."),
        (["logs", "x", "--tail", "-1"], "Invalid value for '--tail'"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    world: World, args: list[str], says: str
) -> None:
    result = world.run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"taugrid: {says}")
    assert result.stderr.count("\n") == 1


def test_without_a_command_the_help_is_shown(world: World) -> None:
    result = world.run()
    assert result.exit_code == 2
    assert "Commands:" in result.output
    assert world.run("-h").exit_code == 0


def test_without_a_cluster_the_error_says_what_to_do(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = CliRunner().invoke(main, ["list"])
    assert result.exit_code == 2
    assert "name a kubeconfig with --kubeconfig or KUBECONFIG" in result.stderr


def test_the_exit_codes_are_those_of_the_help(world: World) -> None:
    text = world.run("--help").stdout
    codes = {
        getattr(errors, name).exit_code
        for name in dir(errors)
        if isinstance(getattr(errors, name), type)
        and issubclass(getattr(errors, name), errors.TaugridError)
    }
    told = {int(line.split()[0]) for line in text.splitlines() if line.split()[:1] and
            line.split()[0].isdigit()}  # fmt: skip
    assert told == codes | {0}


# Small parts


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59.9, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (2e5, "2d"), (-3, "0s")],
)
def test_ages(seconds: float, shown: str) -> None:
    assert ago(seconds) == shown


def test_a_line_stays_a_line() -> None:
    assert one_line("  a\nb\x1b[2J\u202e") == "  a b [2J"
    assert table([("A", "B"), ("long\n", "x")]) == ["A     B", "long  x"]
    assert table([]) == []


def test_news_is_a_new_stage_reason_or_hint_and_now_and_then_new_numbers() -> None:
    state = state_of(seen(job()), T0)
    changes = Changes()
    assert changes.is_news(state, 0)
    assert not changes.is_news(state, 100)
    ended = state_of(seen(None), T0)
    assert changes.is_news(ended, 100)
    assert line_of(state, 75) == "  1m  Queued         waits for Kueue to take notice of it"
