"""Kueue's configuration file and webhook objects, as released but for what a process outside a
cluster cannot have.

Changed against the release: no leader election (one replica), no internal certificates (nobody
mounts the Secret), addresses on the loopback interface, the integrations that this project uses,
and no visibility server (it wants an aggregated API service). Client limits and concurrency are the
release's own.

Every webhook has failurePolicy Fail, so only those of the chosen integrations are kept: one that
nobody serves would refuse every pod or deployment.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from e2e.cluster.settings import ClusterError

NAMESPACE = "kueue-system"
QPS, BURST = 300, 500
UNLIMITED = 10
"""How many times the release's limits stand for none."""

_CORE = ("clusterqueue", "cohort", "resourceflavor", "workload")
_PATH_OF = {
    "batch/job": "batch-v1-job",
    "deployment": "apps-v1-deployment",
    "jobset.x-k8s.io/jobset": "jobset-x-k8s-io-v1alpha2-jobset",
    "pod": "-v1-pod",
    "ray.io/raycluster": "ray-io-v1-raycluster",
    "ray.io/rayjob": "ray-io-v1-rayjob",
    "ray.io/rayservice": "ray-io-v1-rayservice",
    "statefulset": "apps-v1-statefulset",
}
# The release leaves these alone in every job webhook.
_NOT_SYSTEM = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        }
    ]
}


def configuration(
    *,
    frameworks: Sequence[str],
    webhook_port: int,
    metrics_port: int,
    health_port: int,
    certificates: str,
    release_limits: bool,
    overrides: Mapping[str, Any],
) -> dict[str, Any]:
    times = 1 if release_limits else UNLIMITED
    base: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": certificates},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics_port}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "clientConnection": {"qps": QPS * times, "burst": BURST * times},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Pod": 5,
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 5,
                "Cohort.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 5,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "integrations": {"frameworks": list(frameworks)},
        "featureGates": {"VisibilityOnDemand": False},
    }
    return laid_over(base, overrides)


def laid_over(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`overrides` on top of `base`, object by object; None takes a key away; lists are replaced
    whole."""
    result = copy.deepcopy(dict(base))
    for key, value in overrides.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = laid_over(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def webhooks(
    released: Iterable[dict[str, Any]], *, frameworks: Sequence[str], port: int, authority: str
) -> list[dict[str, Any]]:
    """The released webhook configurations, cut down to `frameworks` and turned to a local port.

    authority: the certificate authority as base64, for `caBundle`.
    """
    unknown = sorted(set(frameworks) - set(_PATH_OF))
    if unknown:
        raise ClusterError(
            f"no webhooks known for the integration {', '.join(unknown)}",
            hint=f"known: {', '.join(sorted(_PATH_OF))}",
        )
    jobs = tuple(_PATH_OF[framework] for framework in frameworks)
    return [
        {
            **one,
            "metadata": {"name": f"kueue-{one['metadata']['name']}"},
            "webhooks": [
                _local(hook, jobs, port, authority)
                for hook in one["webhooks"]
                if _path(hook).endswith(tuple(f"-{kind}" for kind in (*jobs, *_CORE)))
            ],
        }
        for one in released
    ]


def _path(hook: Mapping[str, Any]) -> str:
    path: str = hook["clientConfig"]["service"]["path"]
    return path


def _local(
    hook: Mapping[str, Any], jobs: Sequence[str], port: int, authority: str
) -> dict[str, Any]:
    path = _path(hook)
    local = {
        **hook,
        "clientConfig": {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority},
    }
    if path.endswith(tuple(f"-{kind}" for kind in jobs)):
        local["namespaceSelector"] = _NOT_SYSTEM
    return local
