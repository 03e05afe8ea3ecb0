"""The pages as data: code blocks, links, headings, tables. For the tests beside."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "rayjob_templates").rglob("*.md")),
)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    mark: str
    """Of `<!-- mark -->` on the line above it; "" for none."""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


_FENCE = re.compile(
    r"(?m)^(?:<!-- (?P<mark>[\w-]+) -->\n)?(?P<indent> *)```(?P<language>\w*)\n"
    r"(?P<text>(?:.*\n)*?)(?P=indent)```$"
)


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> tuple[Block, ...]:
    text = text_of(page)
    return tuple(
        Block(
            page,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            re.sub(rf"(?m)^{found['indent']}", "", found["text"]),
            found["mark"] or "",
        )
        for found in _FENCE.finditer(text)
    )


def block(name: str, mark: str) -> Block:
    (only,) = [b for b in blocks(ROOT / name) if b.mark == mark]
    return only


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", text_of(page))


def table(name: str, mark: str) -> list[list[str]]:
    """Rows of the table below `<!-- mark -->`, without its head."""
    _, found, rest = text_of(ROOT / name).partition(f"<!-- {mark} -->\n")
    assert found, f"{name} has no table marked {mark}"
    rows = []
    for line in rest.splitlines():
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """(place, words) of every command: lines that begin with `$` in console blocks; code spans."""
    for b in blocks(page):
        if b.language == "console":
            for line in b.text.splitlines():
                if line.startswith("$ "):
                    yield b.place, shlex.split(line[2:], comments=True)
    for span in re.findall(r"`([^`\n]+)`", prose(page)):
        if re.match(r"(taugrid|make|python -m)\b[^(]*$", span):
            yield f"{page.relative_to(ROOT)}: `{span}`", span.split()


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"(?m)^#+ (.+)$", prose(page))}


def links(page: Path) -> list[str]:
    """Targets of all links that stay in the repository."""
    found = re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", prose(page))
    return [target for target in found if not re.match(r"[a-z]+:", target)]
