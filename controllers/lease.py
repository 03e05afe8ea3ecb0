"""Who leads: a Lease, and the pure rule of what to do about it.

The holder renews; another takes over once the lease has not been renewed for its duration, as
measured on its own monotonic clock since it last saw the record change (clocks of two machines
are never compared). A holder that cannot renew in time must stop at once: the process ends.

Source: kubernetes client-go, tools/leaderelection, v0.36 (the meaning of the fields).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from taugrid_ray import names
from taugrid_ray.errors import AlreadyExists, ApiError, Conflict, NotFound, Unreachable
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_micro_time
from taugrid_ray.kinds.resource import LEASE, Obj
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.clock import Clock


class Move(str, Enum):
    TAKE = "Take"
    RENEW = "Renew"
    WAIT = "Wait"


@dataclass(frozen=True, slots=True)
class Record:
    """What we know of the lease. `seen_at_s`: monotonic, when it last changed before our eyes."""

    holder: str
    renewed: str
    duration_s: float
    seen_at_s: float


def next_move(record: Record | None, me: str, now_s: float) -> Move:
    """now_s: monotonic."""
    if record is None or not record.holder:
        return Move.TAKE
    if record.holder == me:
        return Move.RENEW
    return Move.TAKE if now_s - record.seen_at_s > record.duration_s else Move.WAIT


class Elector:
    """One step at a time; the runtime's lease thread calls it."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        *,
        me: str,
        namespace: str,
        name: str = "taugrid-ray",
        duration_s: float = 15.0,
        renew_deadline_s: float = 10.0,
        period_s: float = 4.0,
    ) -> None:
        self._api = api
        self._clock = clock
        self.me = me
        self._namespace = namespace
        self._name = name
        self._duration_s = duration_s
        self._renew_deadline_s = renew_deadline_s
        self.period_s = period_s
        self._record: Record | None = None
        self._renewed_at_s: float | None = None

    @property
    def leads(self) -> bool:
        """Do we hold the lease, renewed recently enough to act on it?"""
        return (
            self._renewed_at_s is not None
            and self._clock.monotonic_s() - self._renewed_at_s < self._renew_deadline_s
        )

    @property
    def lost(self) -> bool:
        """Did we lead, and do so no longer? Then nothing may be done any more."""
        return self._renewed_at_s is not None and not self.leads

    def step(self) -> None:
        """Look, and take or renew. Trouble with the API server is no loss until the deadline."""
        asked_at_s = self._clock.monotonic_s()
        try:
            there = self._look()
            move = next_move(self._record, self.me, asked_at_s)
            if move is Move.WAIT:
                if self._renewed_at_s is not None:
                    # Somebody else holds what we held: we are late.
                    self._renewed_at_s = asked_at_s - self._renew_deadline_s
                return
            self._write(there, takes=move is Move.TAKE)
            self._renewed_at_s = asked_at_s
        except (AlreadyExists, Conflict):
            return
        except (ApiError, Unreachable):
            return

    def release(self) -> None:
        """Give the lease up, so that a standby need not wait for it to run out."""
        if not self.leads:
            return
        self._renewed_at_s = None
        try:
            there = self._api.get(LEASE, self._name, self._namespace)
            if fields.text(there, "spec", "holderIdentity") == self.me:
                spec = {**fields.mapping(there, "spec"), "holderIdentity": ""}
                self._api.replace(LEASE, {**there, "spec": spec}, self._namespace)
        except (ApiError, Unreachable):
            return

    def _look(self) -> Obj | None:
        try:
            there = self._api.get(LEASE, self._name, self._namespace)
        except NotFound:
            self._record = None
            return None
        renewed = fields.text(there, "spec", "renewTime")
        holder = fields.text(there, "spec", "holderIdentity")
        before = self._record
        if before is None or (before.renewed, before.holder) != (renewed, holder):
            self._record = Record(
                holder,
                renewed,
                float(fields.integer(there, "spec", "leaseDurationSeconds") or self._duration_s),
                self._clock.monotonic_s(),
            )
        return there

    def _write(self, there: Obj | None, *, takes: bool) -> None:
        now = format_micro_time(self._clock.now_s())
        before = fields.mapping(there, "spec")
        changes = (fields.integer(before, "leaseTransitions") or 0) + int(takes and bool(before))
        spec = {
            "holderIdentity": self.me,
            "leaseDurationSeconds": int(self._duration_s),
            "renewTime": now,
            "acquireTime": now if takes else before.get("acquireTime", now),
            "leaseTransitions": changes,
        }
        if there is None:
            lease = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "labels": {names.MANAGED_BY: names.MANAGED_BY_US},
                },
                "spec": spec,
            }
            self._api.create(LEASE, lease, self._namespace)
        else:
            self._api.replace(LEASE, {**there, "spec": spec}, self._namespace)
