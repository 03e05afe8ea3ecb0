"""One request before it is sent, and how a stream of answers is read.

Names come from users. They are checked here, before they become part of a URL: an empty name would
turn a delete of one object into a delete of all, and `..` would leave the collection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError

from taugrid_ray.errors import ApiError, Invalid, Throttled, Unreachable
from taugrid_ray.kinds.resource import Resource
from taugrid_ray.kube.answers import error_from, plain
from taugrid_ray.kube.api import Change, Patch, WatchEvent


@dataclass(frozen=True, slots=True)
class Call:
    """One request before it is sent."""

    verb: str
    kind: Resource
    namespace: str | None = None
    name: str | None = None
    sub: str = ""
    method: str = "GET"
    query: Mapping[str, str] | None = None
    body: Any = None
    content_type: str = "application/json"
    shown: str = ""
    """A name for messages where the URL has none."""

    def __post_init__(self) -> None:
        namespace = self.namespace if self.kind.namespaced else None
        for part in (namespace, self.name):
            if part is not None and (part in ("", ".", "..") or "/" in part or "%" in part):
                raise Invalid(f"{self.what}: {plain(part)!r} is not the name of an object")

    @property
    def url(self) -> str:
        path = quote(self.kind.path(self.namespace, self.name, self.sub))
        return f"{path}?{urlencode(self.query)}" if self.query else path

    @property
    def has_test(self) -> bool:
        """A JSON patch with a `test`: one that does not fit means that the object has changed."""
        return self.content_type == Patch.JSON.value and any(
            operation.get("op") == "test" for operation in self.body
        )

    @property
    def what(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name or self.shown) if part)
        return plain(f"{self.verb} {self.kind.kind} {where}".strip(), length=400)

    def may_repeat(self, error: BaseException) -> bool:
        if isinstance(error, Throttled):
            return True
        if self.method != "GET":
            return False
        return isinstance(error, Unreachable) or (
            isinstance(error, ApiError) and error.status >= 500
        )


@contextmanager
def network_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (HTTPError, OSError) as error:
        raise Unreachable(plain(f"{what}: no answer: {error}")) from error


def pieces(response: urllib3.BaseHTTPResponse, what: str) -> Iterator[bytes]:
    try:
        with network_errors(what):
            yield from response.stream(65536)
    finally:
        response.close()


def lines(response: urllib3.BaseHTTPResponse, what: str) -> Iterator[bytes]:
    """Whole lines of a stream; one that ends within a line was cut off."""
    rest = b""
    for piece in response.stream(65536):
        first, *more = piece.split(b"\n")
        if not more:
            rest += first
            continue
        yield rest + first
        yield from more[:-1]
        rest = more[-1]
    if rest.strip():
        raise Unreachable(f"{what}: the stream was cut off within a line")


def event(line: bytes, what: str) -> WatchEvent:
    """One line of a watch. An ERROR event carries a Status, which raises what it would as an HTTP
    answer."""
    try:
        event = json.loads(line)
        change, body = event["type"], event["object"]
        if change != "ERROR":
            int(body["metadata"]["resourceVersion"])
            return WatchEvent(Change(change), body)
    except (ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"{what}: a line of the stream cannot be read") from error
    status = body.get("code") if isinstance(body, dict) else None
    raise error_from(what, status or 500, body if isinstance(body, dict) else {}, {})
