"""Rules about every file that git tracks, and about every module of the packages.

Each rule answers all breaches at once, as `file:line`, and says what to do instead.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("taugrid_ray", "controllers", "e2e")
GENERATED = re.compile(
    r"(^|/)(go\.sum|go\.mod|requirements\.lock|LICENSE)$|^tests/data/|^deploy/crds/"
)
LINES_MAX = 600
THIS = "tests/tidy/test_tidy.py"

# Spelled in pieces, so that this file keeps its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.}$/-])/(?:" + "work|root|home/(?!ray/)[a-z]+" + r")/\w")
REGISTRY = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "files\\.pythonhosted",
            "index-" + "url",
            "proxy\\.golang",
            "npmjs\\.org",
            "artifactory",
            "find-" + "links",
        )
    )
)
UNFINISHED = re.compile(r"\b(?:" + "TO" + "DO|FIX" + "ME|X" + r"XX)\b")

REAL_TIME = {
    "e2e/": "the local cluster waits for programs that tell nobody when they are ready",
    "tests/contract/": "the suite also runs against a real API server",
    "tests/cli/test_http.py": "a command against a server over HTTP, in real time",
}
"""Where time itself may be asked or slept, and why. Elsewhere: a clock, an event, a condition."""
CLOCKS = {
    **REAL_TIME,
    "taugrid_ray/kube/clock.py": "the clock itself",
    "taugrid_ray/kube/credentials.py": "the age of a token, on a thread of the connection pool",
}

ENTRY_POINTS = re.compile(r"(^|\.)__main__$|\.__init__$")
BY_NAME = {
    r"taugrid_ray\.crd": "run by `make crds`",
    r"taugrid_ray\.policy_reference": "run by `make docs`",
    r"taugrid_ray\.cli\.main": "the command `taugrid`",
    r"taugrid_ray\.cli\.\w+_command": "loaded by cli/main.py when its command is given",
    r"e2e\.nodes\.launch": "run as a program of its own by nodes/container.py",
    r"e2e\.scenarios\.plays\.\w+": "found by scenarios/registry.py",
}
"""Modules that nothing imports, and how they are found."""


@lru_cache
def tracked() -> tuple[str, ...]:
    found = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip("no git repository: these rules are about tracked files")
    return tuple(name for name in found.stdout.split("\0") if name and (ROOT / name).is_file())


@cache
def text_of(name: str) -> str:
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def lines(pattern: re.Pattern[str], names: tuple[str, ...]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in names
        if name != THIS
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if pattern.search(line)
    ]


def written() -> tuple[str, ...]:
    """Files that people write."""
    return tuple(name for name in tracked() if not GENERATED.search(name))


def modules(*packages: str) -> Iterator[tuple[str, str, ast.Module]]:
    """(dotted name, file, syntax tree) of each tracked module."""
    for name in tracked():
        if name.endswith(".py") and name.startswith(tuple(f"{p}/" for p in packages)):
            dotted = name.removesuffix(".py").replace("/", ".")
            yield dotted, name, tree_of(name)


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(text_of(name), name)


def test_no_paths_of_one_machine() -> None:
    """A path that only exists where it was written; use one relative to the checkout."""
    assert lines(MACHINE_PATH, written()) == []


def test_no_package_registries() -> None:
    """Where packages come from is for the installation to know, not for the repository."""
    assert lines(REGISTRY, tracked()) == []


def test_nothing_is_marked_unfinished() -> None:
    assert lines(UNFINISHED, written()) == []


def test_no_file_is_too_long() -> None:
    """Split it: a file has one thing to say."""
    sizes = {name: text_of(name).count("\n") for name in written()}
    assert {name: size for name, size in sizes.items() if size > LINES_MAX} == {}


def test_every_module_says_what_it_is() -> None:
    without = [
        file
        for _, file, tree in modules(*PACKAGES, "tests")
        if tree.body and not ast.get_docstring(tree)
    ]
    assert without == [], "begin each with a docstring that explains the mechanism"


@cache
def _calls(file: str) -> tuple[tuple[str, int], ...]:
    """(what is called, line) for names and `module.name`."""
    return tuple(
        (ast.unparse(node.func), node.lineno)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )


@pytest.mark.parametrize(
    ("call", "allowed", "instead"),
    [
        ("print", ("taugrid_ray/cli/", "e2e/"), "a callback, or logging"),
        ("time.sleep", tuple(REAL_TIME), "kube.clock, an Event, or a condition"),
        ("time.time", tuple(CLOCKS), "kube.clock"),
        ("time.monotonic", tuple(CLOCKS), "kube.clock"),
        ("datetime.now", (), "kube.clock"),
        ("eval", (), "a parser"),
        ("os.system", (), "subprocess with a list"),
    ],
)
def test_calls_that_are_not_made(call: str, allowed: tuple[str, ...], instead: str) -> None:
    found = [
        f"{file}:{line}"
        for _, file, _ in modules(*PACKAGES, "tests")
        if not file.startswith(allowed or ("-",))
        for name, line in _calls(file)
        if name == call
    ]
    assert not found, f"use {instead}:\n" + "\n".join(found)


def test_every_module_is_used() -> None:
    """Delete what nobody imports; tests do not count as users."""
    there = {dotted: file for dotted, file, _ in modules(*PACKAGES)}
    used: set[str] = set()
    for dotted, file, tree in modules(*PACKAGES):
        package = dotted if file.endswith("/__init__.py") else dotted.rpartition(".")[0]
        for node in ast.walk(tree):
            used.update(_imported(node, package.removesuffix(".__init__")))
    unused = [
        file
        for dotted, file in there.items()
        if dotted not in used
        and not ENTRY_POINTS.search(dotted)
        and not any(re.fullmatch(pattern, dotted) for pattern in BY_NAME)
    ]
    assert not unused, "\n".join(unused)
    for pattern in BY_NAME:
        assert any(re.fullmatch(pattern, dotted) for dotted in there), f"nothing is {pattern}"


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # Started or loaded by its name.
        yield node.value.partition(":")[0]
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join((*above, base)).strip(".")
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


GROUPS = re.compile(
    r"\"(?:kueue\.x-k8s\.io|autoscaling\.x-k8s\.io|ray\.io|batch|coordination\.k8s\.io|"
    r"events\.k8s\.io|taugrid\.io)/v\d\w*\""
)


def test_api_groups_are_spelled_once() -> None:
    """Group and version of a kind stand in taugrid_ray/kinds; elsewhere use the Resource."""
    library = tuple(
        name
        for name in tracked()
        if name.startswith(("taugrid_ray/", "controllers/"))
        and not name.startswith("taugrid_ray/kinds/")
    )
    assert lines(GROUPS, library) == []
