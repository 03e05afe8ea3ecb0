"""The two ConfigMaps: the settings that people write, and the status that we write.

A bad configuration changes nothing: the last good one stays, and what is wrong stands in an
annotation on the ConfigMap and in an event, both with the field's name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.pools.settings import Settings, SettingsError, load
from taugrid_ray.errors import NotFound
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import format_micro_time, parse_meta
from taugrid_ray.kinds.resource import CONFIG_MAP, EVENT, Obj
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.names import digest

NAMESPACE = "kube-system"
CONFIG_NAME = "e2e-pools"
CONFIG_KEY = "pools"
STATUS_NAME = "e2e-pools-status"
STATUS_KEY = "status"
ERROR_ANNOTATION = "e2e.taugrid.io/error"
MANAGER = "e2e-pools"


@dataclass(frozen=True, slots=True)
class Config:
    """The settings as written, and the error that stands on them."""

    text: str
    error: str
    uid: str


def parse_config(obj: Obj) -> Config:
    meta = parse_meta(obj)
    text = fields.text(obj, "data", CONFIG_KEY)
    return Config(text, meta.annotations.get(ERROR_ANNOTATION, ""), meta.uid)


def read(config: Config | None, before: Settings | None) -> tuple[Settings | None, str]:
    """The settings that hold now, and what is wrong with those that were written.

    No ConfigMap means no settings: nobody serves any request.
    """
    if config is None:
        return None, ""
    try:
        return load(config.text), ""
    except SettingsError as wrong:
        return before, wrong.message


def report(api: KubeApi, config: Config, error: str, now_s: float) -> None:
    """Say on the ConfigMap what is wrong with it; an empty error takes the word back."""
    notes = {ERROR_ANNOTATION: error or None}
    body = {"metadata": {"uid": config.uid, "annotations": notes}}
    api.patch(CONFIG_MAP, CONFIG_NAME, body, NAMESPACE, manager=MANAGER)
    if error:
        api.create(EVENT, _event(config, error, now_s), NAMESPACE)


def _event(config: Config, error: str, now_s: float) -> Obj:
    at = format_micro_time(now_s)
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{CONFIG_NAME}.{digest(config.uid, error, at)}",
            "namespace": NAMESPACE,
        },
        "eventTime": at,
        "type": "Warning",
        "reason": "InvalidConfiguration",
        "action": "Load",
        "note": f"the last good configuration stays: {error}"[:1024],
        "regarding": {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "name": CONFIG_NAME,
            "namespace": NAMESPACE,
            "uid": config.uid,
        },
        "reportingController": MANAGER,
        "reportingInstance": MANAGER,
    }


def read_status(api: KubeApi) -> str:
    """The status as an earlier run left it, or ""."""
    try:
        return fields.text(api.get(CONFIG_MAP, STATUS_NAME, NAMESPACE), "data", STATUS_KEY)
    except NotFound:
        return ""


def write_status(api: KubeApi, status: dict[str, Any]) -> None:
    body = {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": STATUS_NAME, "namespace": NAMESPACE},
        "data": {STATUS_KEY: json.dumps(status, indent=1)},
    }
    api.patch(
        CONFIG_MAP, STATUS_NAME, body, NAMESPACE, how=Patch.APPLY, manager=MANAGER, force=True
    )
