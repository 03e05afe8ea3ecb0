"""A kubeconfig for one user, with everything in it: no other file is needed to use it."""

from __future__ import annotations

import base64
import json

from e2e.cluster.certificates import Pair


def kubeconfig(*, name: str, server: str, authority: bytes, user: str, pair: Pair) -> bytes:
    """As JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": _b64(authority)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _b64(pair.certificate),
                    "client-key-data": _b64(pair.key),
                },
            }
        ],
    }
    return json.dumps(config, indent=1).encode()


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
