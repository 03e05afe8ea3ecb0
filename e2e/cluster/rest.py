"""The admin's bare HTTP to a cluster that is coming up: health paths, and creating what everything
else needs.

Not for anything else: once the cluster is up, `Cluster.api` is the way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import urllib3

from e2e.cluster.settings import ClusterError

_PROBE = urllib3.Timeout(connect=1.0, read=2.0)
_CALL = urllib3.Timeout(connect=5.0, read=60.0)


class Rest:
    def __init__(self, pki: Path) -> None:
        self._pool = urllib3.PoolManager(
            maxsize=8,
            retries=False,
            ca_certs=str(pki / "ca.crt"),
            cert_file=str(pki / "admin.crt"),
            key_file=str(pki / "admin.key"),
        )

    def healthy(self, url: str) -> bool:
        """Does `url` answer 200 now?"""
        try:
            return self._pool.request("GET", url, timeout=_PROBE).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def find(self, url: str) -> dict[str, Any] | None:
        """What is at `url`, or None where nothing is yet."""
        status, content = self._call("GET", url, None)
        if status == 404:
            return None
        return _object("GET", url, status, content)

    def post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        return _object("POST", url, *self._call("POST", url, json.dumps(body).encode()))

    def _call(self, method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        try:
            answer = self._pool.request(method, url, body=body, headers=headers, timeout=_CALL)
        except urllib3.exceptions.HTTPError as error:
            raise ClusterError(f"{method} {url}: {error}") from error
        return answer.status, answer.data


def _object(method: str, url: str, status: int, content: bytes) -> dict[str, Any]:
    if status >= 300:
        raise ClusterError(f"{method} {url}: HTTP {status}: {content[:500]!r}")
    result: dict[str, Any] = json.loads(content)
    return result
