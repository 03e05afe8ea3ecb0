"""A container's environment and command line, as the kubelet makes them.

Pure: secrets and config maps come as mappings that the caller has read. Order counts: service
variables, then `envFrom`, then `env`, each of which may use what stands before it as `$(NAME)`. A
`$$` is one dollar sign; a name that is not known stays as it is written.

Source: kubernetes, third_party/forked/golang/expansion, pkg/kubelet/kubelet_pods.go, v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from taugrid_ray import quantity
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj

Contents = Mapping[str, Mapping[str, bytes]]
"""Name of a secret or config map to its keys."""

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class ConfigError(Exception):
    """The container cannot be started as it is written; the sentence says what is missing."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a container runs: what references may point at."""

    pod: Obj
    addresses: Mapping[str, str]
    """`podIP` and `hostIP`."""
    allocatable: Mapping[str, str]
    """What the node offers: the limit of a container that has none."""
    service_env: Mapping[str, str]
    secrets: Contents = field(default_factory=dict)
    config_maps: Contents = field(default_factory=dict)


def expand(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value, `$$` becomes `$`."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        return known.get(found[2], found[0])

    return _REFERENCE.sub(value, text)


def environment(container: Obj, around: Surroundings) -> dict[str, str]:
    """The container's variables, without what the image would have set. Raises ConfigError."""
    known = dict(around.service_env)
    for source in fields.objects(container, "envFrom"):
        known |= _all_of(source, around)
    for variable in fields.objects(container, "env"):
        name = fields.text(variable, "name")
        if "valueFrom" in variable:
            value = _value_from(fields.mapping(variable, "valueFrom"), container, around)
            if value is None:
                continue
        else:
            value = expand(fields.text(variable, "value"), known)
        known[name] = value
    return known


def command_line(container: Obj, known: Mapping[str, str]) -> list[str]:
    """Raises ConfigError where there is nothing to run: images are not used here."""
    words = [*fields.strings(container, "command"), *fields.strings(container, "args")]
    if not words:
        raise ConfigError(
            f'container "{fields.text(container, "name")}" has neither command nor args; '
            "images are not used on process nodes, so there is no default command"
        )
    return [expand(word, known) for word in words]


def _all_of(source: Obj, around: Surroundings) -> dict[str, str]:
    prefix = fields.text(source, "prefix")
    for key, kind, contents in (
        ("configMapRef", "configmap", around.config_maps),
        ("secretRef", "secret", around.secrets),
    ):
        if key in source:
            name = fields.text(source, key, "name")
            if name in contents:
                return {prefix + k: _decoded(v) for k, v in sorted(contents[name].items())}
            if not fields.is_true(source, key, "optional"):
                raise ConfigError(f'{kind} "{name}" not found')
    return {}


def _value_from(source: Obj, container: Obj, around: Surroundings) -> str | None:
    """None leaves the variable out."""
    for key, kind, contents in (
        ("secretKeyRef", "secret", around.secrets),
        ("configMapKeyRef", "configmap", around.config_maps),
    ):
        if key in source:
            return _one_key(fields.mapping(source, key), kind, contents)
    if "fieldRef" in source:
        return field_value(fields.text(source, "fieldRef", "fieldPath"), around)
    if "resourceFieldRef" in source:
        return resource_value(fields.mapping(source, "resourceFieldRef"), container, around)
    raise ConfigError(f"environment source {', '.join(source)} is not served on process nodes")


def _one_key(ref: Obj, kind: str, contents: Contents) -> str | None:
    name, key = fields.text(ref, "name"), fields.text(ref, "key")
    optional = fields.is_true(ref, "optional")
    if name not in contents:
        if optional:
            return None
        raise ConfigError(f'{kind} "{name}" not found')
    if key not in contents[name]:
        if optional:
            return None
        raise ConfigError(f"couldn't find key {key} in {kind} {name}")
    return _decoded(contents[name][key])


def _decoded(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def field_value(path: str, around: Surroundings) -> str:
    """What a `fieldRef` points at. Raises ConfigError for a path that Kubernetes does not have."""
    pod = around.pod
    found = _SUBSCRIPT.fullmatch(path)
    if found:
        return fields.text(pod, "metadata", found[1], found[2])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = fields.string_map(pod, *path.split("."))
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(pairs.items()))
    simple = {
        "metadata.name": fields.text(pod, "metadata", "name"),
        "metadata.namespace": fields.text(pod, "metadata", "namespace"),
        "metadata.uid": fields.text(pod, "metadata", "uid"),
        "spec.nodeName": fields.text(pod, "spec", "nodeName"),
        "spec.serviceAccountName": fields.text(pod, "spec", "serviceAccountName"),
        "status.podIP": around.addresses.get("podIP", ""),
        "status.podIPs": around.addresses.get("podIP", ""),
        "status.hostIP": around.addresses.get("hostIP", ""),
        "status.hostIPs": around.addresses.get("hostIP", ""),
    }
    if path not in simple:
        raise ConfigError(f"field {path} is not served on process nodes")
    return simple[path]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def resource_value(ref: Obj, container: Obj, around: Surroundings) -> str:
    """A request or limit in units of the divisor, rounded up.

    A container without a limit sees what the node offers, one without a request sees 0: nothing
    smaller or larger than what is true.
    """
    asked = fields.text(ref, "containerName")
    if asked:
        everyone = (
            *fields.objects(around.pod, "spec", "containers"),
            *fields.objects(around.pod, "spec", "initContainers"),
        )
        named = [each for each in everyone if fields.text(each, "name") == asked]
        if not named:
            raise ConfigError(f'resourceFieldRef names container "{asked}", which is not there')
        container = named[0]
    side, _, resource = fields.text(ref, "resource").partition(".")
    given = fields.mapping(container, "resources", side).get(resource)
    if given is None and side == "limits":
        given = around.allocatable.get(resource)
    amount = Fraction(0) if given is None else quantity.parse(given)
    divisor = quantity.parse(str(ref.get("divisor") or "1")) or Fraction(1)
    return str(-(-amount // divisor))
