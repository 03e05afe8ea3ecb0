"""What is mounted into a container, and the files behind it.

Volumes live in the pod's folder and are gone with it: `emptyDir` (in memory where it says so),
`configMap`, `secret`, `downwardAPI` and `projected`, which brings the service account's token.
Their contents are those of the moment the pod starts; only tokens are renewed. Other kinds,
`hostPath` among them, are refused: a pod touches nothing on disk outside of its own folder.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from e2e.nodes.environment import (
    ConfigError,
    Contents,
    Surroundings,
    expand,
    field_value,
    resource_value,
)
from taugrid_ray import quantity
from taugrid_ray.errors import NotFound
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import time_at
from taugrid_ray.kinds.resource import CONFIG_MAP, SECRET, SERVICE_ACCOUNT, Obj, Resource
from taugrid_ray.kube.api import KubeApi

TOKEN_S = 3600
RENEW_AT = 0.8
"""Of a token's life; what the kubelet does too."""


class VolumeError(Exception):
    """A volume that cannot be made, now or ever; the sentence says why. It is tried again."""


SHARED_MEMORY = ".shm"
"""Of a pod that mounts nothing at /dev/shm; no volume can be called so."""
SHARED_MEMORY_BYTES = 64 * 1024**2
"""What containers get from the usual runtimes."""


@dataclass(frozen=True, slots=True)
class Volume:
    path: Path
    in_memory: bool = False
    """Made inside of the pod, on its file system in memory."""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A service account token in a file, and when to renew it."""

    path: Path
    audience: str
    life_s: int
    renew_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Made:
    volumes: Mapping[str, Volume]
    tokens: tuple[Token, ...]


def read_contents(
    api: KubeApi, namespace: str, secrets: Iterable[str], config_maps: Iterable[str]
) -> tuple[Contents, Contents]:
    """What is there of them; a missing one is left out."""
    return (
        {n: _data(found) for n in set(secrets) if (found := _get(api, SECRET, namespace, n))},
        {
            n: _data(found)
            for n in set(config_maps)
            if (found := _get(api, CONFIG_MAP, namespace, n))
        },
    )


def _get(api: KubeApi, kind: Resource, namespace: str, name: str) -> Obj | None:
    try:
        return api.get(kind, name, namespace)
    except NotFound:
        return None


def _data(found: Obj) -> dict[str, bytes]:
    is_secret = found.get("kind") == SECRET.kind
    binary = fields.string_map(found, "data" if is_secret else "binaryData")
    plain = {} if is_secret else fields.string_map(found, "data")
    try:
        decoded = {key: base64.b64decode(value) for key, value in binary.items()}
    except binascii.Error as error:
        name = fields.text(found, "metadata", "name")
        raise VolumeError(f'"{name}" holds what is not base64: {error}') from error
    return decoded | {key: value.encode() for key, value in plain.items()}


def names_in_env(container: Obj) -> tuple[set[str], set[str]]:
    """Secrets and config maps that the container's environment uses."""
    sources = [
        *fields.objects(container, "envFrom"),
        *(fields.mapping(each, "valueFrom") for each in fields.objects(container, "env")),
    ]
    secrets = {
        fields.text(s, key, "name") for s in sources for key in ("secretRef", "secretKeyRef")
    }
    maps = {
        fields.text(s, key, "name") for s in sources for key in ("configMapRef", "configMapKeyRef")
    }
    return secrets - {""}, maps - {""}


def names_in_volumes(pod: Obj) -> tuple[set[str], set[str]]:
    sources = list(fields.objects(pod, "spec", "volumes"))
    sources += [
        source
        for volume in fields.objects(pod, "spec", "volumes")
        for source in fields.objects(volume, "projected", "sources")
    ]
    secrets = {fields.text(s, "secret", "secretName") for s in sources}
    secrets |= {fields.text(s, "secret", "name") for s in sources}
    return secrets - {""}, {fields.text(s, "configMap", "name") for s in sources} - {""}


def memory_sizes(pod: Obj) -> dict[str, int]:
    """The pod's file systems in memory by name, with their sizes in bytes; 0 is no limit.

    A volume is as large as it says, or as the pod's memory limits together, as with a kubelet: Ray
    sizes its object store by what it finds in /dev/shm.
    """
    sizes = {SHARED_MEMORY: SHARED_MEMORY_BYTES}
    for volume in fields.objects(pod, "spec", "volumes"):
        if _is_in_memory(volume):
            given = fields.text(volume, "emptyDir", "sizeLimit")
            sizes[fields.text(volume, "name")] = _bytes(given) if given else _memory_limit(pod)
    return sizes


def _is_in_memory(volume: Obj) -> bool:
    return fields.text(volume, "emptyDir", "medium") == "Memory"


def _memory_limit(pod: Obj) -> int:
    limits = [
        fields.text(container, "resources", "limits", "memory")
        for container in fields.objects(pod, "spec", "containers")
    ]
    return sum(map(_bytes, limits)) if all(limits) else 0


def _bytes(amount: str) -> int:
    return int(quantity.parse(amount))


def make_volumes(api: KubeApi, folder: Path, memory: Path, around: Surroundings) -> Made:
    """Write the files of all volumes of the pod. Raises VolumeError."""
    pod = around.pod
    namespace = fields.text(pod, "metadata", "namespace")
    secrets, config_maps = read_contents(api, namespace, *names_in_volumes(pod))
    around = replace(around, secrets=secrets, config_maps=config_maps)
    volumes: dict[str, Volume] = {}
    tokens: list[Token] = []
    for volume in fields.objects(pod, "spec", "volumes"):
        name = fields.text(volume, "name")
        try:
            volumes[name] = _make(volume, folder / name, memory / name, around, tokens)
        except ConfigError as error:
            raise VolumeError(f'volume "{name}": {error}') from error
    return Made(volumes, tuple(renewed(api, pod, token) for token in tokens))


def _make(
    volume: Obj, folder: Path, memory: Path, around: Surroundings, tokens: list[Token]
) -> Volume:
    if _is_in_memory(volume):
        return Volume(memory, in_memory=True)
    folder.mkdir(parents=True, exist_ok=True)
    if "emptyDir" in volume:
        folder.chmod(0o777)
        return Volume(folder)
    if "projected" in volume:
        mode = fields.integer(volume, "projected", "defaultMode")
        for source in fields.objects(volume, "projected", "sources"):
            if "serviceAccountToken" in source:
                tokens.append(_token(fields.mapping(source, "serviceAccountToken"), folder))
            else:
                _write(_files(source, around), folder, mode)
        return Volume(folder, read_only=True)
    kind = next((k for k in ("configMap", "secret", "downwardAPI") if k in volume), "")
    if not kind:
        kinds = ", ".join(key for key in volume if key != "name")
        raise ConfigError(f"volumes of kind {kinds} are not served on process nodes")
    _write(_files(volume, around), folder, fields.integer(volume, kind, "defaultMode"))
    return Volume(folder, read_only=True)


def _token(source: Obj, folder: Path) -> Token:
    return Token(
        path=_inside(folder, fields.text(source, "path")),
        audience=fields.text(source, "audience"),
        life_s=fields.integer(source, "expirationSeconds") or TOKEN_S,
    )


def _files(source: Obj, around: Surroundings) -> dict[str, bytes]:
    """Path in the volume to content, for a volume or one source of a projected one."""
    if "downwardAPI" in source:
        return {
            fields.text(item, "path"): _downward(item, around).encode()
            for item in fields.objects(source, "downwardAPI", "items")
        }
    for kind, contents in (("secret", around.secrets), ("configMap", around.config_maps)):
        if kind in source:
            ref = fields.mapping(source, kind)
            name = fields.text(ref, "secretName") or fields.text(ref, "name")
            if name not in contents:
                if fields.is_true(ref, "optional"):
                    return {}
                raise ConfigError(f'{kind.lower()} "{name}" not found')
            return _chosen(ref, name, contents[name])
    raise ConfigError(f"sources of kind {', '.join(source)} are not served on process nodes")


def _chosen(ref: Obj, name: str, content: Mapping[str, bytes]) -> dict[str, bytes]:
    items = fields.objects(ref, "items")
    if not items:
        return dict(content)
    chosen = {}
    for item in items:
        key = fields.text(item, "key")
        if key in content:
            chosen[fields.text(item, "path")] = content[key]
        elif not fields.is_true(ref, "optional"):
            raise ConfigError(f'"{name}" has no key "{key}"')
    return chosen


def _downward(item: Obj, around: Surroundings) -> str:
    if "resourceFieldRef" in item:
        return resource_value(fields.mapping(item, "resourceFieldRef"), {}, around)
    return field_value(fields.text(item, "fieldRef", "fieldPath"), around)


def _write(files: Mapping[str, bytes], folder: Path, mode: int | None) -> None:
    for path, content in files.items():
        file = _inside(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o644 if mode is None else mode & 0o777)


def _inside(folder: Path, path: str) -> Path:
    """Paths are what users wrote: the API server refuses `..`, and so does this."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts:
        raise ConfigError(f"{path!r} is not a path inside of a volume")
    return folder.joinpath(*parts)


def renewed(api: KubeApi, pod: Obj, token: Token) -> Token:
    """Ask for a new token and put it in place of the old one at once."""
    account = fields.text(pod, "spec", "serviceAccountName") or "default"
    namespace = fields.text(pod, "metadata", "namespace")
    asked: Obj = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": token.life_s,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": fields.text(pod, "metadata", "name"),
                "uid": fields.text(pod, "metadata", "uid"),
            },
        },
    }
    if token.audience:
        asked["spec"]["audiences"] = [token.audience]
    requests = replace(
        SERVICE_ACCOUNT, kind="TokenRequest", plural=f"serviceaccounts/{account}/token"
    )
    try:
        answer = api.create(requests, asked, namespace)
    except NotFound as error:
        raise VolumeError(f'serviceaccount "{account}" not found') from error
    token.path.parent.mkdir(parents=True, exist_ok=True)
    beside = token.path.with_name(f".{token.path.name}.new")
    beside.write_text(fields.text(answer, "status", "token"))
    beside.chmod(0o644)
    os.replace(beside, token.path)
    expires_s = time_at(answer, "status", "expirationTimestamp") or 0.0
    return replace(token, renew_at_s=expires_s - (1 - RENEW_AT) * token.life_s)


def mount_orders(
    container: Obj, volumes: Mapping[str, Volume], known: Mapping[str, str]
) -> list[Obj]:
    """The container's `volumeMounts` as orders for `launch.py`, outer mount points first."""
    orders = []
    for mount in fields.objects(container, "volumeMounts"):
        name = fields.text(mount, "name")
        if name not in volumes:
            raise ConfigError(f'volumeMount "{name}" names no volume of the pod')
        volume = volumes[name]
        sub = fields.text(mount, "subPath") or expand(fields.text(mount, "subPathExpr"), known)
        source = _inside(volume.path, sub) if sub else volume.path
        order: Obj = {
            "source": str(source),
            "target": str(PurePosixPath("/") / fields.text(mount, "mountPath")),
            "read_only": volume.read_only or fields.is_true(mount, "readOnly"),
            "create": volume.in_memory or bool(sub and not source.exists()),
        }
        if sub:
            order["within"] = str(volume.path)
        orders.append(order)
    return sorted(orders, key=lambda order: str(order["target"]).count("/"))
