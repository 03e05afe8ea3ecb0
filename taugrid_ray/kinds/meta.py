"""What every object carries: name, uid, owners, labels, times.

Times on the wire are RFC 3339: whole seconds in `metadata` and most conditions (metav1.Time),
microseconds in leases and events (metav1.MicroTime). Here they are seconds since the epoch, as the
clock gives them.

Source: kubernetes/apimachinery, pkg/apis/meta/v1/types.go, v0.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from taugrid_ray.kinds import fields

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class OwnerRef:
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False

    @property
    def group(self) -> str:
        """Empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The part of `metadata` that we read. `namespace` is empty for cluster-scoped objects."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[OwnerRef, ...]
    finalizers: tuple[str, ...]
    created_at_s: float | None
    deleted_at_s: float | None
    """When deletion was asked for (plus the grace period); None for a live object."""

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_terminating(self) -> bool:
        return self.deleted_at_s is not None

    @property
    def controller_owner(self) -> OwnerRef | None:
        """The one owner that manages this object, if any."""
        return next((o for o in self.owners if o.controller), None)

    def owned_by(self, uid: str) -> bool:
        """Is the object with this uid among the owners, controlling or not?"""
        return bool(uid) and any(o.uid == uid for o in self.owners)


def parse_meta(obj: Any) -> ObjectMeta:
    """Read `obj["metadata"]`; what is missing is empty."""
    meta = fields.mapping(obj, "metadata")
    return ObjectMeta(
        name=fields.text(meta, "name"),
        namespace=fields.text(meta, "namespace"),
        uid=fields.text(meta, "uid"),
        resource_version=fields.text(meta, "resourceVersion"),
        generation=fields.integer(meta, "generation") or 0,
        labels=fields.string_map(meta, "labels"),
        annotations=fields.string_map(meta, "annotations"),
        owners=tuple(_owner(o) for o in fields.objects(meta, "ownerReferences")),
        finalizers=fields.strings(meta, "finalizers"),
        created_at_s=time_at(meta, "creationTimestamp"),
        deleted_at_s=time_at(meta, "deletionTimestamp"),
    )


def _owner(ref: Mapping[str, Any]) -> OwnerRef:
    return OwnerRef(
        api_version=fields.text(ref, "apiVersion"),
        kind=fields.text(ref, "kind"),
        name=fields.text(ref, "name"),
        uid=fields.text(ref, "uid"),
        controller=fields.is_true(ref, "controller"),
    )


def controller_owner(obj: Any) -> OwnerRef | None:
    """The one owner that manages `obj`, if any."""
    return parse_meta(obj).controller_owner


def time_at(obj: Any, *path: str) -> float | None:
    """The time at `path` in seconds since the epoch; None where there is none or it is no time."""
    try:
        return parse_time(fields.text(obj, *path))
    except ValueError:
        return None


# The same few moments are read at each look at a gang.
@lru_cache(maxsize=4096)
def parse_time(text: str) -> float:
    """RFC 3339 to seconds since the epoch; any number of decimals, `Z` or an offset.

    Raises ValueError for anything else: a date without a time, a time without a zone, a leap second
    (which Go's reader, and so the API server, refuses as well).
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-12-01T04:05:06Z")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, off_hours, off_minutes = found.groups()[6:]
    offset = timedelta()
    if sign:
        offset = timedelta(hours=int(off_hours), minutes=int(off_minutes))
        if int(off_hours) > 23 or int(off_minutes) > 59:
            raise ValueError(f"{text!r} has an impossible offset from UTC")
        offset = -offset if sign == "-" else offset
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError as wrong:
        raise ValueError(f"{text!r} is not a time: {wrong}") from wrong
    seconds = (whole - _EPOCH - offset) // timedelta(seconds=1)
    return seconds + float(f"0{fraction}") if fraction else float(seconds)


def format_time(at_s: float) -> str:
    """Seconds since the epoch as metav1.Time writes it: whole seconds, rounded down."""
    whole = _EPOCH + timedelta(seconds=int(at_s // 1))
    return f"{whole:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def format_micro_time(at_s: float) -> str:
    """Seconds since the epoch as metav1.MicroTime writes it: always six decimals."""
    micros = round(at_s * 1_000_000)
    whole, rest = divmod(micros, 1_000_000)
    return f"{format_time(whole)[:-1]}.{rest:06d}Z"
