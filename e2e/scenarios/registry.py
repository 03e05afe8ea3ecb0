"""All scenarios by name: functions over a Stage, whose docstrings say what they prove."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from e2e.cluster import Nodes
from e2e.scenarios.stage import Stage

Play = Callable[[Stage], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    says: str
    nodes: Nodes
    """PROCESS where Ray itself is the point, FAKE everywhere else."""
    in_test: bool
    """Part of `make test`; all are part of `make test-all`."""
    play: Play


_ALL: dict[str, Scenario] = {}


def scenario(
    name: str, *, nodes: Nodes = Nodes.FAKE, in_test: bool = False
) -> Callable[[Play], Play]:
    def enrol(play: Play) -> Play:
        assert name not in _ALL, name
        says = (play.__doc__ or "").strip().splitlines()[0]
        _ALL[name] = Scenario(name, says, nodes, in_test, play)
        return play

    return enrol


def scenarios() -> Mapping[str, Scenario]:
    """Every scenario, sorted by name."""
    from e2e.scenarios import plays

    for module in pkgutil.iter_modules(plays.__path__):
        importlib.import_module(f"{plays.__name__}.{module.name}")
    return dict(sorted(_ALL.items()))
