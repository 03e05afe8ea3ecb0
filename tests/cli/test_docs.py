"""The reference page names every command, option, exit code, stage and outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from taugrid_ray.cli.main import main
from taugrid_ray.jobs.model import Outcome
from taugrid_ray.reasons import Stage

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
SHARED = "Options of all commands"


def _sections() -> dict[str, str]:
    """Heading -> text."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _commands(found, f"{path} {name}")


ALL = dict(_commands(main, "taugrid"))


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_a_section_with_its_options(path: str) -> None:
    sections = _sections()
    text = next((t for heading, t in sections.items() if f"`{path}`" in heading), None)
    assert text is not None, f"{PAGE.name} has no section for {path}"
    shared = next(t for heading, t in sections.items() if heading.startswith(SHARED))
    for option in ALL[path].params:
        if isinstance(option, click.Option):
            for spelling in (*option.opts, *option.secondary_opts):
                assert f"`{spelling}`" in text + shared, f"{path} {spelling} is not told"


def test_every_option_that_is_told_exists() -> None:
    told = set(re.findall(r"^\| `(-[^|]*)` \|", PAGE.read_text(), flags=re.MULTILINE))
    spellings = {s for row in told for s in row.split("`, `")}
    real = {
        spelling
        for command in ALL.values()
        for option in command.params
        for spelling in (*option.opts, *option.secondary_opts)
    }
    assert spellings <= real | {"-h", "--help"}


def test_the_exit_codes_stages_and_outcomes_are_told() -> None:
    text = PAGE.read_text()
    codes = re.findall(r"^\| (\d+) \|", _sections()["Exit codes"], flags=re.MULTILINE)
    assert codes == ["0", "1", "2", "124", "125", "130"]
    for word in (*Stage, *Outcome):
        assert f"`{word.value}`" in text
