"""The text of a pod's /etc/hosts, which here stands in for DNS and for kube-proxy.

A headless service answers with the addresses of its ready pods, or of all of them where it says
`publishNotReadyAddresses`, as DNS would. Any other service has a cluster address that nobody serves
here, so its name leads straight to one pod: a ready one, or one that is not ready where there is no
other, so that a connection is refused instead of a name not found. Ports are therefore the pod's,
not the service's. Only services of the pod's own namespace are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj

DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True)
class Self:
    """The pod that reads the file."""

    namespace: str
    hostname: str
    address: str
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """`hostAliases`: address and names."""


def hosts_text(
    me: Self, services: Iterable[Obj], endpoints: Mapping[str, Obj], api_address: str
) -> str:
    """`endpoints` by service name, of the same namespace as the pod."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines.append(f"{me.address} {me.hostname}")
    lines.append(f"{api_address} {' '.join(_names('kubernetes', 'default'))}")
    lines += [f"{address} {' '.join(names)}" for address, names in me.aliases]
    for service in sorted(services, key=lambda each: fields.text(each, "metadata", "name")):
        name = fields.text(service, "metadata", "name")
        if fields.text(service, "metadata", "namespace") != me.namespace or name == "kubernetes":
            continue
        names = [*_names(name, me.namespace), name]
        for address in service_addresses(service, endpoints.get(name)):
            lines.append(f"{address} {' '.join(names)}")
    return "\n".join(lines) + "\n"


def service_addresses(service: Obj, endpoints: Obj | None) -> list[str]:
    """The addresses that the service's name leads to, in a stable order."""
    ready = _addresses(endpoints, "addresses")
    unready = _addresses(endpoints, "notReadyAddresses")
    if fields.text(service, "spec", "clusterIP") == "None":
        published = fields.is_true(service, "spec", "publishNotReadyAddresses")
        return sorted({*ready, *unready}) if published else ready
    return (ready or unready)[:1]


def aliases(pod: Obj) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (fields.text(each, "ip"), fields.strings(each, "hostnames"))
        for each in fields.objects(pod, "spec", "hostAliases")
    )


def _names(name: str, namespace: str) -> list[str]:
    return [f"{name}.{namespace}.svc.{DOMAIN}", f"{name}.{namespace}.svc", f"{name}.{namespace}"]


def _addresses(endpoints: Obj | None, which: str) -> list[str]:
    return sorted(
        {
            fields.text(address, "ip")
            for subset in fields.objects(endpoints, "subsets")
            for address in fields.objects(subset, which)
        }
    )


def hostname_of(pod: Obj) -> str:
    """What the pod's programs see as their machine's name: at most 63 characters, as a label."""
    name = fields.text(pod, "spec", "hostname") or fields.text(pod, "metadata", "name")
    return name[:63].rstrip("-.")
