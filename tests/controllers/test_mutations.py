"""Each deliberate fault is found by the tables, or else by the simulated lives."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from itertools import product
from types import ModuleType
from typing import Any

import pytest

from tests.controllers import (
    test_admitted,
    test_booking,
    test_checks,
    test_cold,
    test_decide,
    test_failure,
    test_lease,
    test_loop,
    test_memory,
    test_perform,
)
from tests.controllers.mutations import FAULTS, Fault, made
from tests.sim.life import Life

TABLES = (
    test_decide,
    test_cold,
    test_admitted,
    test_failure,
    test_booking,
    test_memory,
    test_checks,
    test_perform,
    test_lease,
    test_loop,
)
LIVES = 30


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def cases(module: ModuleType) -> Iterator[Callable[[], None]]:
    """Every case of the module's tests that needs no more than the module's own fixtures."""
    for name, test in vars(module).items():
        if not name.startswith("test_") or hasattr(test, "hypothesis"):
            continue
        marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
        for choice in product(*(_choices(mark) for mark in marks)):
            values = {key: value for part in choice for key, value in part.items()}
            wanted = set(inspect.signature(test).parameters) - set(values)
            if all(hasattr(module, fixture) for fixture in wanted):
                yield lambda t=test, v=values, w=wanted: t(**v, **_fixtures(module, w))


def _choices(mark: pytest.Mark) -> list[dict[str, Any]]:
    keys, rows = mark.args[0], mark.args[1]
    names = [k.strip() for k in keys.split(",")] if isinstance(keys, str) else list(keys)
    return [dict(zip(names, _row(row, len(names)), strict=True)) for row in rows]


def _row(row: Any, width: int) -> Any:
    if hasattr(row, "values") and hasattr(row, "marks"):
        return row.values
    return (row,) if width == 1 else row


def _fixtures(module: ModuleType, wanted: set[str]) -> dict[str, Any]:
    there: dict[str, Any] = {}

    def resolve(name: str) -> Any:
        if name not in there:
            make = inspect.unwrap(getattr(module, name))
            there[name] = make(**{p: resolve(p) for p in inspect.signature(make).parameters})
        return there[name]

    return {name: resolve(name) for name in wanted}


def finds(case: Callable[[], None]) -> bool:
    try:
        case()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever it leads to is a find
        return True
    return False


def test_without_a_fault_nothing_is_found() -> None:
    """Else every fault would be "found"."""
    all_cases = [case for module in TABLES for case in cases(module)]
    assert len(all_cases) > 200
    for case in all_cases:
        case()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.says)
def test_every_fault_is_found(fault: Fault) -> None:
    with made(fault):
        if any(finds(case) for module in TABLES for case in cases(module)):
            return
        if any(finds(Life(seed).run) for seed in range(LIVES)):
            return
    pytest.fail(f"nothing finds that {fault.says} ({fault.module}: {fault.before!r})")
