"""Leave nothing behind: delete the requests and templates of a gang that nobody needs."""

from __future__ import annotations

from collections.abc import Container

from controllers.actions import Action, Delete, Target
from controllers.gang.seen import SeenGang
from taugrid_ray.kinds.meta import ObjectMeta
from taugrid_ray.kinds.provisioning_request import ProvisioningRequest
from taugrid_ray.kinds.resource import POD_TEMPLATE, PROVISIONING_REQUEST, Resource


def drop_all_but(
    seen: SeenGang,
    live: tuple[ProvisioningRequest, ...],
    *,
    templates: Container[str] = frozenset(),
) -> tuple[Action, ...]:
    """Requests first: one whose template is gone fails for good, the other way round is harmless.

    templates: names to keep beside those that the live requests refer to.
    """
    uids = {r.meta.uid for r in live}
    named = {name for r in live for name in r.templates}
    return (
        *(
            _delete(PROVISIONING_REQUEST, r.meta)
            for r in seen.requests
            if r.meta.uid not in uids and not r.meta.is_terminating
        ),
        *(
            _delete(POD_TEMPLATE, t)
            for t in seen.templates
            if t.name not in named and t.name not in templates and not t.is_terminating
        ),
    )


def _delete(kind: Resource, meta: ObjectMeta) -> Delete:
    return Delete(kind, Target(meta.namespace, meta.name, meta.uid))
