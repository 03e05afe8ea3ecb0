"""Calls that fail when a test says so: before the deed, or after it (the answer is lost)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from taugrid_ray.kinds.resource import Resource
from taugrid_ray.kube.delta import Key

READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it came. `verb`: get, list, watch, create, patch, apply, replace, delete."""

    verb: str
    kind: Resource
    key: Key
    sub: str = ""
    body: Any = None
    manager: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A write that was tried, for assertions. `outcome`: "ok", "same" (changed nothing), "dry", or
    the name of what was raised. A lost answer is "ok": the deed was done."""

    call: Call
    at_s: float
    outcome: str
    resource_version: int = 0

    @property
    def verb(self) -> str:
        return self.call.verb

    @property
    def kind(self) -> str:
        return self.call.kind.kind

    @property
    def key(self) -> Key:
        return self.call.key


@dataclass
class Fault:
    error: Callable[[], BaseException]
    verb: str
    kind: Resource | None
    when: Literal["before", "after"]
    times: int
    match: Callable[[Call], bool]

    def hits(self, call: Call, when: str) -> bool:
        return (
            self.times > 0
            and self.when == when
            and self.verb in ("*", call.verb)
            and (self.kind is None or self.kind == call.kind)
            and self.match(call)
        )


@dataclass
class Faults:
    waiting: list[Fault] = field(default_factory=list)

    def raise_if_due(self, call: Call, when: Literal["before", "after"]) -> None:
        for fault in self.waiting:
            if fault.hits(call, when):
                fault.times -= 1
                if not fault.times:
                    self.waiting.remove(fault)
                raise fault.error()
