"""The manifests of the cases: third-party files, read where they lie and never copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "TAUGRID_RAY_CASES"
_BESIDE = Path(__file__).parents[2].parent / "shared" / "cases" / "inputs"


def folder() -> Path | None:
    """Where the manifests lie; None where they do not."""
    named = os.environ.get(VARIABLE)
    place = Path(named) if named else _BESIDE
    return place if place.is_dir() else None


def absent() -> str:
    if named := os.environ.get(VARIABLE):
        return f"{VARIABLE} names {named}, which is no folder"
    return f"{VARIABLE} is unset and ../shared/cases/inputs is not beside the checkout"


def files() -> list[str]:
    """Each file as `folder/name` without its ending, sorted; none where there is no folder."""
    place = folder()
    if place is None:
        return []
    return sorted(f"{p.parent.name}/{p.stem}" for p in place.glob("*/*.yaml"))


def content(file: str) -> bytes:
    """A file's bytes. Skips the test, with the reason, where the file is not there."""
    place = folder()
    if place is None:
        pytest.skip(absent())
    path = place / f"{file}.yaml"
    if not path.is_file():
        pytest.skip(f"{file}.yaml is not in this folder of cases")
    return path.read_bytes()
