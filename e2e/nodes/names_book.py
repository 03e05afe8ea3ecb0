"""Keeps the hosts file of every running pod up to date with services and endpoints.

A file is rewritten in place: it is mounted into containers, so it must stay the same file. The text
goes out in one write and the file is cut afterwards, so a reader never finds it empty.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from e2e.nodes.hosts import Self, hosts_text
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import ENDPOINTS, Obj, Resource


@dataclass(slots=True)
class _Entry:
    me: Self
    path: Path
    written: str = ""


class NamesBook:
    """Safe for several threads."""

    def __init__(self, api_address: str) -> None:
        self._api_address = api_address
        self._lock = Lock()
        self._services: dict[str, dict[str, Obj]] = {}
        self._endpoints: dict[str, dict[str, Obj]] = {}
        self._pods: dict[str, _Entry] = {}

    def enter(self, uid: str, me: Self, path: Path) -> None:
        """Write the pod's file, and keep it current until `leave`."""
        with self._lock:
            path.write_text("")
            self._pods[uid] = entry = _Entry(me, path)
            self._write(entry)

    def leave(self, uid: str) -> None:
        with self._lock:
            self._pods.pop(uid, None)

    def changed(self, kind: Resource, obj: Obj, *, gone: bool) -> None:
        """A Service or Endpoints object is new, other or gone."""
        namespace = fields.text(obj, "metadata", "namespace")
        name = fields.text(obj, "metadata", "name")
        book = self._endpoints if kind == ENDPOINTS else self._services
        with self._lock:
            if gone:
                book.get(namespace, {}).pop(name, None)
            else:
                book.setdefault(namespace, {})[name] = obj
            for entry in self._pods.values():
                if entry.me.namespace == namespace:
                    self._write(entry)

    def _write(self, entry: _Entry) -> None:
        text = hosts_text(
            entry.me,
            self._services.get(entry.me.namespace, {}).values(),
            self._endpoints.get(entry.me.namespace, {}),
            self._api_address,
        )
        if text == entry.written:
            return
        content = text.encode()
        descriptor = os.open(entry.path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
        finally:
            os.close(descriptor)
        entry.written = text
