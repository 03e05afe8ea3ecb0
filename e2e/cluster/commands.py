"""The command line of each part. Pure: paths, ports and settings in, argv out.

Cheap where a throw-away cluster can be cheap (etcd does not wait for the disk), as released where
it would change what is tested. Every part listens on the loopback interface alone, except the API
server of a cluster with a bridge: pods reach it there, and so it listens everywhere and lets nobody
in without a certificate or token of this cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from e2e.cluster.layout import Layout, Record
from e2e.cluster.settings import REPOSITORY, Audit

ETCD = "etcd"
API_SERVER = "apiserver"
FAKE_NODE = "kwok.x-k8s.io/node=fake"
"""The annotation of a node that kwok plays."""
HELD_NODES = REPOSITORY / "e2e" / "pools" / "node-held.yaml"
"""A stage of our own: a fake node that boots late."""

_BINARY_OF = {
    API_SERVER: "kube-apiserver",
    "kcm": "kube-controller-manager",
    "scheduler": "kube-scheduler",
}
# Who each part is to the API server. The first two have roles of their own in every cluster.
USER_OF = {
    "kcm": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "kueue": ("kueue", ("system:masters",)),
    "kuberay": ("kuberay", ("system:masters",)),
    "kwok": ("kwok", ("system:masters",)),
}
_CLIENT_LIMITS = ("--kube-api-qps=200", "--kube-api-burst=400")


def binary(record: Record, part: str) -> str:
    return str(record.binaries / _BINARY_OF.get(part, part))


def etcd(record: Record, layout: Layout) -> list[str]:
    pki = layout.pki
    client = f"https://127.0.0.1:{record.ports.etcd}"
    peer = f"https://127.0.0.1:{record.ports.etcd_peer}"
    return [
        binary(record, ETCD),
        "--name=e2e",
        f"--data-dir={layout.folder / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--quota-backend-bytes={4 * 1024**3}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=e2e={peer}",
        f"--cert-file={pki / 'server.crt'}",
        f"--key-file={pki / 'server.key'}",
        "--client-cert-auth",
        f"--trusted-ca-file={pki / 'ca.crt'}",
        f"--peer-cert-file={pki / 'server.crt'}",
        f"--peer-key-file={pki / 'server.key'}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki / 'ca.crt'}",
    ]


def apiserver(record: Record, layout: Layout, audit: Audit) -> list[str]:
    pki, network = layout.pki, record.network
    argv = [
        binary(record, API_SERVER),
        f"--etcd-servers=https://127.0.0.1:{record.ports.etcd}",
        f"--etcd-cafile={pki / 'ca.crt'}",
        f"--etcd-certfile={pki / 'server.crt'}",
        f"--etcd-keyfile={pki / 'server.key'}",
        f"--secure-port={record.ports.apiserver}",
        f"--bind-address={'0.0.0.0' if network.bridge else '127.0.0.1'}",
        f"--advertise-address={network.address}",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        # To the node agent, for logs; it listens at an address, not at a name.
        f"--kubelet-client-certificate={pki / 'server.crt'}",
        f"--kubelet-client-key={pki / 'server.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--anonymous-auth=false",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={network.service_subnet}",
        "--allow-privileged=true",
        # Its shares are made for a big control plane; on two cores it would be what a benchmark
        # measures.
        "--enable-priority-and-fairness=false",
        "--profiling=false",
    ]
    if audit is not Audit.OFF:
        argv += [
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit_log}",
            "--audit-log-maxsize=4096",
        ]
    return argv


def kcm(record: Record, layout: Layout) -> list[str]:
    pki = layout.pki
    return [
        binary(record, "kcm"),
        f"--kubeconfig={kubeconfig_of(layout, 'kcm')}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        *_CLIENT_LIMITS,
        *_https(record.ports.kcm, pki),
    ]


def scheduler(record: Record, layout: Layout) -> list[str]:
    return [
        binary(record, "scheduler"),
        f"--kubeconfig={kubeconfig_of(layout, 'scheduler')}",
        "--leader-elect=false",
        *_CLIENT_LIMITS,
        *_https(record.ports.scheduler, layout.pki),
    ]


def kueue(layout: Layout, *, root: bool) -> list[str]:
    """In a root of its own: Kueue reads certificates from a fixed path below /etc.

    Changing the root takes no mounts and no right that a plain container lacks; who is not root
    gets the right to it with a user namespace.
    """
    return [
        "unshare",
        *([] if root else ["--map-root-user"]),
        f"--root={layout.kueue_root}",
        "--wd=/",
        f"/{layout.kueue_binary.name}",
        f"--config=/{layout.kueue_config.name}",
        f"--kubeconfig=/{layout.kueue_kubeconfig.name}",
        "--zap-log-level=2",
    ]


def kuberay(record: Record, layout: Layout, flags: Sequence[str]) -> list[str]:
    return [
        binary(record, "kuberay"),
        f"--kubeconfig={kubeconfig_of(layout, 'kuberay')}",
        "--enable-leader-election=false",
        f"--metrics-addr=127.0.0.1:{record.ports.kuberay_metrics}",
        f"--health-probe-bind-address=127.0.0.1:{record.ports.kuberay_health}",
        "--use-kubernetes-proxy",
        "--log-stdout-encoder=console",
        *flags,
    ]


def kwok(record: Record, layout: Layout, stages: Sequence[Path]) -> list[str]:
    return [
        binary(record, "kwok"),
        f"--kubeconfig={kubeconfig_of(layout, 'kwok')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={FAKE_NODE}",
        "--node-lease-duration-seconds=40",
        f"--cidr={record.network.fake_subnet}",
        f"--server-address=127.0.0.1:{record.ports.kwok}",
        *(f"--config={stage}" for stage in (*stages, HELD_NODES)),
    ]


def kubeconfig_of(layout: Layout, part: str) -> Path:
    return layout.kubeconfig_of(USER_OF[part][0])


def audit_policy(audit: Audit) -> dict[str, Any]:
    """One line per finished request, without bodies; of the writes alone unless ALL is wanted."""
    writes = ["create", "update", "patch", "delete", "deletecollection"]
    rule: dict[str, Any] = {"level": "Metadata"}
    if audit is not Audit.ALL:
        rule["verbs"] = writes
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": True,
        "rules": [rule, {"level": "None"}],
    }


def _https(port: int, pki: Path) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={pki / 'server.crt'}",
        f"--tls-private-key-file={pki / 'server.key'}",
    ]
