"""What we ask of an API server, as one Protocol.

`wire.py` speaks it over urllib3; the tests' FakeKube speaks it in process; one contract suite runs
against both and against a real API server. Objects are plain JSON dicts (`Obj`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from taugrid_ray.kinds.resource import Obj, Resource


class Patch(str, Enum):
    """How a patch body is read. The value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    """A list of operations; a `test` that does not hold raises Conflict or Invalid (see
    wire.py).
    """
    APPLY = "application/apply-patch+yaml"
    """Server-side apply; creates the object where it is missing."""
    STRATEGIC = "application/strategic-merge-patch+json"


class Change(str, Enum):
    """What a watch says happened."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    change: Change
    object: Obj


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `next_page` is the token of the next, or ""."""

    items: tuple[Obj, ...]
    resource_version: str
    next_page: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A raw answer, still being read. Header names may repeat."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: Iterator[bytes]
    """The body as it comes. Raises Unreachable where it is cut off."""
    close: Callable[[], None]

    def body(self) -> bytes:
        return b"".join(self.pieces)


class KubeApi(Protocol):
    """Every call raises the errors of `taugrid_ray.errors`: ApiError's children, or Unreachable."""

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> Obj: ...

    def list_page(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        page: str = "",
    ) -> Page:
        """One page; `namespace=None` lists all namespaces. `labels`, `fields`: selector strings."""
        ...

    def watch(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
    ) -> Iterator[WatchEvent]:
        """Changes after `resource_version`, bookmarks included, for at most `timeout_s`.

        Raises Gone where the version is too old (as HTTP status or as an ERROR event), Unreachable
        where the connection dies or stays silent for too long.
        """
        ...

    def create(
        self,
        kind: Resource,
        obj: Obj,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        strict: bool = False,
    ) -> Obj:
        """`strict`: a field that the server does not know is an error, not dropped in silence."""
        ...

    def patch(
        self,
        kind: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        how: Patch = Patch.MERGE,
        sub: str = "",
        manager: str = "taugrid-ray",
        force: bool = False,
        dry_run: bool = False,
    ) -> Obj:
        """`sub` is a subresource such as "status". `force` counts only for APPLY."""
        ...

    def replace(
        self, kind: Resource, obj: Obj, namespace: str | None = None, *, sub: str = ""
    ) -> Obj:
        """PUT: the object carries the resourceVersion it was read at; Conflict where that is
        old."""
        ...

    def delete(
        self,
        kind: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Delete one object; with `uid` only that very one, Conflict otherwise.

        Raises NotFound where it is gone.
        """
        ...


class PodLogs(Protocol):
    """Beside KubeApi: what a container printed."""

    def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        tail_lines: int | None = None,
        previous: bool = False,
        since_s: int | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]: ...


class RawCalls(Protocol):
    """Beside KubeApi: any path of the API server, such as a service proxy."""

    def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float | None = None,
    ) -> Answer: ...


def list_all(
    api: KubeApi,
    kind: Resource,
    namespace: str | None = None,
    *,
    labels: str = "",
    fields: str = "",
    page_size: int = 500,
) -> list[Obj]:
    """All pages of a list, in one go. For commands and tests; controllers keep a store instead."""
    items: list[Obj] = []
    page = ""
    while True:
        got = api.list_page(
            kind, namespace, labels=labels, fields=fields, page_size=page_size, page=page
        )
        items += got.items
        page = got.next_page
        if not page:
            return items
