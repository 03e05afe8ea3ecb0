"""Bring up one cluster: files first, then the parts, each as soon as what it needs is there.

etcd and the API server start together. With the API server ready, controller-manager, scheduler and
kwok start, and the CRDs are created meanwhile; Kueue and KubeRay follow once those are served.
Kueue's webhooks come last: they refuse everything until Kueue answers them. Nothing is waited for
by time; a part that dies while we wait is reported with its exit code and the end of its log.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e.build import Built
from e2e.cluster import commands, kueue_config
from e2e.cluster.certificates import Authority, signing_pair, write_secret
from e2e.cluster.kubeconfigs import kubeconfig
from e2e.cluster.layout import Layout, Record
from e2e.cluster.parts import Parts
from e2e.cluster.rest import Rest
from e2e.cluster.settings import Settings, is_root

Progress = Callable[[str], None]

START_S = 120.0
"""For any one condition; a busy small machine is ten times slower than an idle one."""
ADMIN = "admin"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Kueue's webhook adds a finalizer to every flavor: the cheapest question that only it answers.
_FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "is-the-webhook-there"},
}


@dataclass(frozen=True, slots=True)
class Starting:
    """Everything that the steps of a start share."""

    settings: Settings
    record: Record
    layout: Layout
    parts: Parts
    built: Built
    say: Progress

    def wants(self, part: str) -> bool:
        return part in self.settings.parts

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.record.ports.apiserver}"


def write_files(start: Starting) -> None:
    """Certificates, kubeconfigs and configuration files."""
    layout, record, settings = start.layout, start.record, start.settings
    authority = Authority.new(f"taugrid-ray {record.name}")
    addresses = sorted({"127.0.0.1", record.network.address, _first(record.network.service_subnet)})
    hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    server = authority.server("kube-apiserver", addresses, hosts)
    admin = authority.client(ADMIN, ["system:masters"])
    private, public = signing_pair()
    for name, content in {
        "ca.crt": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "server.crt": server.certificate,
        "server.key": server.key,
        "admin.crt": admin.certificate,
        "admin.key": admin.key,
        "sa.key": private,
        "sa.pub": public,
    }.items():
        write_secret(layout.pki / name, content)
    write_secret(
        layout.kubeconfig,
        kubeconfig(
            name=f"taugrid-ray-{record.name}",
            server=start.server,
            authority=authority.pair.certificate,
            user=ADMIN,
            pair=admin,
        ),
    )
    for part in settings.parts:
        write_user(layout, record, authority, *commands.USER_OF[part])
    _write_json(layout.audit_policy, commands.audit_policy(settings.audit))
    _write_kueue_files(start, server.certificate, server.key)


def write_user(
    layout: Layout, record: Record, authority: Authority, user: str, groups: tuple[str, ...]
) -> None:
    """A kubeconfig for `user`; made anew where there is one, since groups may differ."""
    content = kubeconfig(
        name=f"taugrid-ray-{record.name}",
        server=f"https://127.0.0.1:{record.ports.apiserver}",
        authority=authority.pair.certificate,
        user=user,
        pair=authority.client(user, groups),
    )
    write_secret(layout.kubeconfig_of(user), content)


def start_all(start: Starting) -> None:
    rest = Rest(start.layout.pki)
    _start_api(start, rest)
    _start_kubernetes(start)
    _create_crds(start, rest)
    _start_operators(start)
    _await_kubernetes(start, rest)
    _await_operators(start, rest)
    start.say("all parts are ready")


def _start_api(start: Starting, rest: Rest) -> None:
    record, layout, parts = start.record, start.layout, start.parts
    start.say("starting etcd and the API server")
    parts.start(commands.ETCD, commands.etcd(record, layout), {})
    argv = commands.apiserver(record, layout, start.settings.audit)
    parts.start(commands.API_SERVER, argv, {})
    health = f"https://127.0.0.1:{record.ports.etcd}/health"
    _await(start, commands.ETCD, partial(rest.healthy, health), "etcd answers")
    ready = f"{start.server}/readyz"
    _await(start, commands.API_SERVER, partial(rest.healthy, ready), "the API server is ready")


def _start_kubernetes(start: Starting) -> None:
    record, layout, parts = start.record, start.layout, start.parts
    start.say("starting controller-manager, scheduler and kwok; creating the CRDs")
    if start.wants("kcm"):
        parts.start("kcm", commands.kcm(record, layout), {})
    if start.wants("scheduler"):
        parts.start("scheduler", commands.scheduler(record, layout), {})
    if start.wants("kwok"):
        parts.start("kwok", commands.kwok(record, layout, start.built.stages), {})


def _create_crds(start: Starting, rest: Rest) -> None:
    crds = start.built.crds()
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda crd: rest.post(start.server + _CRDS, crd), crds))
    wanted = _resources(crds)

    def served() -> bool:
        return all(
            plurals <= _listed(rest, start.server + path) for path, plurals in wanted.items()
        )

    _await(start, commands.API_SERVER, served, "the CRDs are served")


def _resources(crds: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The plurals to be served, by the path of their group and version."""
    wanted: dict[str, set[str]] = {}
    for crd in crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            if version["served"]:
                path = f"/apis/{spec['group']}/{version['name']}"
                wanted.setdefault(path, set()).add(spec["names"]["plural"])
    return wanted


def _listed(rest: Rest, url: str) -> set[str]:
    """What discovery lists at `url`: established kinds only, and far smaller than the CRDs
    themselves."""
    found = rest.find(url)
    return {each["name"] for each in found["resources"]} if found else set()


def _start_operators(start: Starting) -> None:
    record, layout, parts = start.record, start.layout, start.parts
    start.say("starting Kueue and KubeRay")
    if start.wants("kueue"):
        Rest(layout.pki).post(
            f"{start.server}/api/v1/namespaces",
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": kueue_config.NAMESPACE},
            },
        )
        parts.start("kueue", commands.kueue(layout, root=is_root()), {})
    if start.wants("kuberay"):
        argv = commands.kuberay(record, layout, start.settings.kuberay_flags)
        parts.start("kuberay", argv, start.settings.kuberay_env)


def _await_kubernetes(start: Starting, rest: Rest) -> None:
    ports = start.record.ports
    for part, url in (
        ("kcm", f"https://127.0.0.1:{ports.kcm}/healthz"),
        ("scheduler", f"https://127.0.0.1:{ports.scheduler}/readyz"),
        ("kwok", f"http://127.0.0.1:{ports.kwok}/healthz"),
    ):
        if start.wants(part):
            _await(start, part, partial(rest.healthy, url), f"{part} is ready")
    if start.wants("kcm"):
        # Without it no pod can be created in the namespace.
        account = f"{start.server}/api/v1/namespaces/default/serviceaccounts/default"
        _await(start, "kcm", partial(rest.healthy, account), "the default service account is there")


def _await_operators(start: Starting, rest: Rest) -> None:
    ports = start.record.ports
    if start.wants("kueue"):
        url = f"http://127.0.0.1:{ports.kueue_health}/readyz"
        _await(start, "kueue", partial(rest.healthy, url), "Kueue is ready")
        _register_webhooks(start, rest)
    if start.wants("kuberay"):
        url = f"http://127.0.0.1:{ports.kuberay_health}/readyz"
        _await(start, "kuberay", partial(rest.healthy, url), "KubeRay is ready")


def _register_webhooks(start: Starting, rest: Rest) -> None:
    authority = (start.layout.pki / "ca.crt").read_bytes()
    for one in kueue_config.webhooks(
        start.built.kueue_webhooks(),
        frameworks=start.settings.frameworks,
        port=start.record.ports.kueue_webhook,
        authority=base64.b64encode(authority).decode("ascii"),
    ):
        rest.post(f"{start.server}{_WEBHOOKS}/{one['kind'].lower()}s", one)
    url = f"{start.server}/apis/kueue.x-k8s.io/v1beta2/resourceflavors?dryRun=All"

    def served() -> bool:
        return bool(rest.post(url, _FLAVOR)["metadata"].get("finalizers"))

    _await(start, "kueue", served, "Kueue's webhooks are served")


def _await(start: Starting, part: str, is_ready: Callable[[], bool], what: str) -> None:
    start.parts.wait_until(part, is_ready, what=what, timeout_s=START_S)


def _write_kueue_files(start: Starting, certificate: bytes, key: bytes) -> None:
    """All that it needs, in a root of its own: its program, its configuration, and certificates at
    the path below /etc that is fixed in its source."""
    layout, ports = start.layout, start.record.ports
    certificates = Path("etc/kueue/metrics/certs")
    fixed = layout.kueue_root / certificates
    fixed.mkdir(parents=True)
    write_secret(fixed / "tls.crt", certificate)
    write_secret(fixed / "tls.key", key)
    config = kueue_config.configuration(
        frameworks=start.settings.frameworks,
        webhook_port=ports.kueue_webhook,
        metrics_port=ports.kueue_metrics,
        health_port=ports.kueue_health,
        certificates=f"/{certificates}",
        release_limits=start.settings.release_limits,
        overrides=start.settings.kueue,
    )
    _write_json(layout.kueue_config, config)
    if start.wants("kueue"):
        shutil.copy2(commands.kubeconfig_of(layout, "kueue"), layout.kueue_kubeconfig)
        shutil.copy2(commands.binary(start.record, "kueue"), layout.kueue_binary)


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _first(subnet: str) -> str:
    """The address of the `kubernetes` service: the first of the range."""
    return str(ipaddress.ip_network(subnet)[1])
