"""What reaches the terminal: text without anybody's escapes, data on stdout, the rest on stderr."""

from __future__ import annotations

import json
import os
import sys

import click

from taugrid_ray.kinds.resource import Obj
from taugrid_ray.sentences import printable

LINE_MAX = 4096


def one_line(text: str) -> str:
    """`text` on one line, without control or direction marks: others wrote parts of it. Leading
    blanks stay."""
    blanks = len(text) - len(text.lstrip(" "))
    return " " * blanks + printable(text, limit=LINE_MAX)


def say(line: str) -> None:
    """One line of chatter."""
    click.echo(one_line(line), err=True)


def show(line: str) -> None:
    """One line of data for people."""
    click.echo(one_line(line))


def show_obj(obj: Obj, form: str) -> None:
    """form: json or yaml. Both write control characters as escapes."""
    if form == "yaml":
        import yaml

        click.echo(yaml.safe_dump(obj, sort_keys=False, allow_unicode=False), nl=False)
        return
    click.echo(json.dumps(obj, indent=2))


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their longest cell, two blanks apart."""
    plain = [tuple(one_line(cell) for cell in row) for row in rows]
    widths = [max(len(row[i]) for row in plain) for i in range(len(plain[0]))] if plain else []
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in plain
    ]


def is_terminal() -> bool:
    """May progress be drawn? Asked of standard error, where it goes."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def ago(seconds: float) -> str:
    """`42s`, `7m`, `3h`, `2d`: whole units, rounded down."""
    left = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if left >= size:
            return f"{left // size}{unit}"
    return f"{left}s"
