"""Reading what people wrote: a wrong type is a problem with a path, not a missing value.

The counterpart of `fields`, for manifests before the API server has seen them. A `Field` is a value
and where it stands; reading it as something else than it is raises `FieldError`. As on the API
server, `null` is the same as not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from taugrid_ray import quantity

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_SHOWN_MAX = 60
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class FieldError(ValueError):
    """One field that cannot be what it is. `problem` says what is wrong and what would be right."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def shown(value: Any) -> str:
    """A value that a person wrote, on one line, cut, with nothing a terminal would obey."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(text) > _SHOWN_MAX:
        text = f"{text[:_SHOWN_MAX]}..."
    return f"'{text}'" if isinstance(value, str) else text


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


@dataclass(frozen=True, slots=True)
class Field:
    value: Any
    path: str = ""

    def wrong(self, problem: str) -> FieldError:
        return FieldError(self.path or "the document", problem)

    @property
    def exists(self) -> bool:
        return self.value is not None

    def __getitem__(self, key: str) -> Field:
        """The field below; missing where this one is missing."""
        below = self.mapping().get(key)
        if self.path and not frozenset(key) <= _BARE:
            return Field(below, f"{self.path}[{shown(key)}]")
        return Field(below, f"{self.path}.{key}" if self.path else key)

    def mapping(self) -> dict[str, Any]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong(f"must be a mapping, not {_kind(self.value)}")
        for key in self.value:
            if not isinstance(key, str):
                raise self.wrong(f"has the key {shown(key)}, which must be text: put it in quotes")
        return self.value

    def entries(self) -> Iterator[tuple[str, Field]]:
        """Names and the fields below, in the order written."""
        return ((key, self[key]) for key in self.mapping())

    def items(self) -> tuple[Field, ...]:
        if self.value is None:
            return ()
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {_kind(self.value)}")
        return tuple(Field(item, f"{self.path}[{i}]") for i, item in enumerate(self.value))

    def text(self, default: str = "") -> str:
        if self.value is None:
            return default
        if not isinstance(self.value, str):
            written = shown(self.value)
            raise self.wrong(f"must be text, not {_kind(self.value)}: write '{written}' in quotes")
        return self.value

    def flag(self) -> bool:
        if self.value is None:
            return False
        if not isinstance(self.value, bool):
            raise self.wrong(f"must be true or false, not {shown(self.value)}")
        return self.value

    def integer(self, *, most: int = INT32_MAX) -> int | None:
        """A whole number, or None where it is missing. `most`: 32 bits unless the API has 64."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(f"must be a whole number, not {shown(self.value)}")
        if not -most - 1 <= value <= most:
            raise self.wrong(
                f"{value} is beyond {most}, the largest that Kubernetes can store here"
            )
        return value

    def string_map(self) -> dict[str, str]:
        return {key: self[key].text() for key in self.mapping()}

    def quantity(self) -> Fraction:
        """A Kubernetes quantity; never negative."""
        if not isinstance(self.value, str | int | float):
            raise self.wrong(f"must be a quantity such as 2 or '500m', not {_kind(self.value)}")
        try:
            amount = quantity.parse(self.value)
        except ValueError as refused:
            raise self.wrong(str(refused)) from refused
        if amount < 0:
            raise self.wrong(f"{shown(self.value)} must not be negative: write 0 or more")
        return amount

    def quantities(self) -> dict[str, Fraction]:
        return {key: self[key].quantity() for key in self.mapping()}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {dict: "a mapping", list: "a list", str: "text", int: "a number", float: "a number"}
    return names.get(type(value), "something else")
