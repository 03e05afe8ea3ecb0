"""YAML text -> objects, and which of them are gangs, which are not, which are wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang.extract import gang_of, kind_of, subject
from taugrid_ray.gang.model import Gang
from taugrid_ray.gang.yaml_text import load_documents
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import LIMIT_RANGE, Obj
from taugrid_ray.kinds.strict import shown

_RUNTIME_CLASS = ("node.k8s.io/v1", "RuntimeClass")


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file: a gang, another object, or (with `wrong`) one that cannot be used."""

    obj: Obj
    subject: str
    gang: Gang | None = None
    wrong: ManifestError | None = None


@dataclass(frozen=True, slots=True)
class Manifests:
    documents: tuple[Document, ...]

    @property
    def gangs(self) -> tuple[Gang, ...]:
        return tuple(d.gang for d in self.documents if d.gang is not None)

    @property
    def others(self) -> tuple[Document, ...]:
        """Objects that are no gangs: ConfigMaps, queues and the like."""
        return tuple(d for d in self.documents if d.gang is None and d.wrong is None)

    @property
    def wrong(self) -> tuple[ManifestError, ...]:
        return tuple(d.wrong for d in self.documents if d.wrong is not None)


def load_manifests(text: str | bytes, *, name: str = "the manifest") -> list[Obj]:
    """All objects of a YAML or JSON text, lists unpacked, empty documents left out.

    text: bytes are a file's content, in UTF-8. `name` is how the text is called in errors, such as
    its file name.
    Raises ManifestError: one sentence, with the line where YAML knows it.
    """
    try:
        documents = list(load_documents(_decoded(text)))
    except ValueError as refused:
        raise ManifestError(f"{_label(name)}: {refused}") from refused
    objects: list[Obj] = []
    for number, document in enumerate((d for d in documents if d is not None), 1):
        objects += _unpacked(document, f"{_label(name)}, document {number}")
    return objects


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as refused:
        line = text[: refused.start].count(b"\n") + 1
        raise ValueError(
            f"line {line}: byte {text[refused.start]:#04x} is not UTF-8; save the file as UTF-8"
        ) from refused


def _label(name: str) -> str:
    return name if name.isprintable() else shown(name)


def _unpacked(document: Any, where: str) -> Iterator[Obj]:
    if not isinstance(document, dict):
        raise ManifestError(
            f"{where}: {shown(document)} is not an object; write apiVersion, kind, metadata, spec"
        )
    if not (fields.text(document, "apiVersion") and fields.text(document, "kind")):
        missing = "kind" if fields.text(document, "apiVersion") else "apiVersion"
        raise ManifestError(
            f"{where}: {missing} is missing or no text; write for example kind: RayJob"
        )
    if not (document["kind"].endswith("List") and "items" in document):
        yield document
        return
    items = document["items"]
    if not isinstance(items, list):
        raise ManifestError(f"{where}: items must be a list of objects")
    for number, item in enumerate(items):
        if isinstance(item, dict) and str(item.get("kind", "")).endswith("List"):
            raise ManifestError(f"{where}: items[{number}] is a list inside a list; unpack it")
        yield from _unpacked(item, f"{where}, items[{number}]")


def gangs_in(text: str | bytes, *, name: str = "the manifest", queue: str = "") -> Manifests:
    """Read a file: every object is a gang, another object, or wrong with one sentence.

    LimitRanges and RuntimeClasses in the same file count for the gangs beside them. Raises
    ManifestError only where the text as a whole cannot be read.
    """
    objects = load_manifests(text, name=name)
    ranges = [o for o in objects if _is(o, LIMIT_RANGE.api_version, LIMIT_RANGE.kind)]
    classes = [o for o in objects if _is(o, *_RUNTIME_CLASS)]
    return Manifests(tuple(_document(o, ranges, classes, queue) for o in objects))


def _is(obj: Obj, api_version: str, kind: str) -> bool:
    return obj.get("apiVersion") == api_version and obj.get("kind") == kind


def _document(obj: Obj, ranges: Iterable[Obj], classes: Iterable[Obj], queue: str) -> Document:
    if kind_of(obj) is None and not _is_misspelt_gang(obj):
        return Document(obj, subject(obj))
    namespace = fields.text(obj, "metadata", "namespace")
    own = [r for r in ranges if fields.text(r, "metadata", "namespace") in ("", namespace)]
    try:
        gang = gang_of(obj, limit_ranges=own, runtime_classes=classes, queue=queue)
    except ManifestError as refused:
        return Document(obj, subject(obj), wrong=refused)
    return Document(obj, subject(obj), gang=gang)


def _is_misspelt_gang(obj: Obj) -> bool:
    """The right kind in a version that nobody serves any more, such as ray.io/v1alpha1."""
    group = str(obj.get("apiVersion")).partition("/")[0]
    return (group, obj.get("kind")) in (
        ("ray.io", "RayJob"),
        ("ray.io", "RayCluster"),
        ("batch", "Job"),
    )
