"""Who we are to the API server, and over what socket.

The `kubernetes` package knows kubeconfig files, exec plug-ins, in-cluster tokens and proxies; this
module asks it for exactly that and nothing else. It is imported inside functions because it costs
some 200 ms, and a command line should not pay that for `--help`.

Credentials grow old in two ways. A token with a known end (in-cluster: each minute; exec plug-in:
its own expiry) is renewed before it, by the hook the package leaves on its configuration. Anything
else (a replaced token file, a rotated client certificate, a revoked token) shows as 401: then
everything is loaded anew, once for all callers that were sent away with the same credentials.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import urllib3

from taugrid_ray.errors import Unreachable, UsageError
from taugrid_ray.kube.answers import plain

DEFAULT_KUBECONFIG = "~/.kube/config"
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOOK_AGAIN_S = 5.0
"""A plug-in whose tokens live shorter than its renewal margin would otherwise run before each
call."""


@dataclass(frozen=True, slots=True)
class Session:
    """One set of credentials in use. `serial` grows with each reload."""

    serial: int
    server: str
    pool: urllib3.PoolManager
    tls: ssl.SSLContext | None
    """For those who open a socket of their own, such as a relay; None for plain http."""
    server_name: str
    """The name to expect in the server's certificate, or "" for the host of `server`."""
    anonymous: bool
    """Neither token nor client certificate was found."""


class Credentials(Protocol):
    """Where to send a call and what to put into its Authorization header."""

    @property
    def namespace(self) -> str:
        """The namespace that the context (or the pod) stands in; "default" where it says none."""
        ...

    def session(self) -> Session: ...

    def authorization(self) -> str:
        """The header's value, or "". Renews a token that is about to end."""
        ...

    def renew(self, serial: int) -> bool:
        """After a 401 to session `serial`: load everything anew. False where that cannot help."""
        ...


class Direct:
    """A known address without credentials: `kubectl proxy`, or a test server."""

    namespace = "default"

    def __init__(self, server: str, *, pool_size: int = 16) -> None:
        pool = urllib3.PoolManager(maxsize=pool_size, socket_options=keep_alive())
        self._session = Session(1, server.rstrip("/"), pool, None, "", anonymous=True)

    def session(self) -> Session:
        return self._session

    def authorization(self) -> str:
        return ""

    def renew(self, serial: int) -> bool:
        return False


class Kubeconfig:
    """Credentials of a kubeconfig file, or of the pod we run in.

    path: files joined by the path separator, as in KUBECONFIG; None where we run in a pod.
    """

    def __init__(self, path: str | None, context: str | None, *, pool_size: int) -> None:
        self._path = path
        self._context = context
        self._pool_size = pool_size
        self._lock = threading.Lock()
        self._looked_at_s = 0.0
        self._configuration, self._session = self._load(serial=1)
        self.namespace = self._find_namespace()

    def session(self) -> Session:
        return self._session

    def authorization(self) -> str:
        with self._lock:
            if time.monotonic() - self._looked_at_s > LOOK_AGAIN_S:
                self._looked_at_s = time.monotonic()
                hook = self._configuration.refresh_api_key_hook
                if hook is not None:
                    with _config_errors():
                        hook(self._configuration)
            return _authorization(self._configuration)

    def renew(self, serial: int) -> bool:
        with self._lock:
            if self._session.serial == serial:
                self._configuration, self._session = self._load(serial=serial + 1)
            return True

    def _load(self, *, serial: int) -> tuple[Any, Session]:
        from kubernetes import config
        from kubernetes.client import Configuration

        configuration = Configuration()
        with _config_errors():
            if self._path is None:
                config.load_incluster_config(client_configuration=configuration)
            else:
                config.load_kube_config(
                    config_file=self._path,
                    context=self._context,
                    client_configuration=configuration,
                )
        self._looked_at_s = time.monotonic()
        return configuration, _open_session(configuration, serial, self._pool_size)

    def _find_namespace(self) -> str:
        if self._path is None:
            try:
                return (IN_CLUSTER / "namespace").read_text().strip() or "default"
            except OSError:
                return "default"
        from kubernetes import config

        with _config_errors():
            contexts, current = config.list_kube_config_contexts(self._path)
        if self._context is not None:
            current = next(c for c in contexts if c["name"] == self._context)
        return str((current.get("context") or {}).get("namespace") or "default")


def find(kubeconfig: str | None, context: str | None, *, pool_size: int) -> Kubeconfig:
    """As kubectl looks: the given file, KUBECONFIG, the file at home, the pod we run in."""
    given = kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG
    files = [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    if any(file.exists() for file in files):
        path = os.pathsep.join(str(file) for file in files)
        return Kubeconfig(path, context, pool_size=pool_size)
    if kubeconfig:
        raise UsageError(f"kubeconfig {kubeconfig!r} does not exist")
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Kubeconfig(None, None, pool_size=pool_size)
    raise UsageError(
        f"no cluster to talk to: {given!r} does not exist, and this is not a pod",
        hint="name a kubeconfig with --kubeconfig or KUBECONFIG",
    )


def keep_alive() -> list[tuple[int, int, int]]:
    """Socket options that find a peer that is gone: asked after 20 s of silence, given up 30 s
    later."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    # The names differ between systems; what one does not know stays at its default.
    for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


@contextmanager
def _config_errors() -> Iterator[None]:
    """A configuration that cannot be read is the caller's to mend; a token file that is away may
    come back."""
    import yaml
    from kubernetes.config import ConfigException

    wrong = (ConfigException, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError)
    try:
        yield
    except wrong as error:
        raise UsageError(plain(f"cannot use the kubeconfig: {error}")) from error
    except ssl.SSLError as error:
        raise UsageError(plain(f"cannot use the kubeconfig's certificates: {error}")) from error
    except OSError as error:
        raise Unreachable(plain(f"cannot read the credentials: {error}")) from error


def _authorization(configuration: Any) -> str:
    # The in-cluster loader keeps the file's last line break, which no header may carry.
    key = configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization")
    return str(key or "").strip()


def _open_session(configuration: Any, serial: int, pool_size: int) -> Session:
    server = str(configuration.host).rstrip("/")
    tls = _tls(configuration) if server.startswith("https") else None
    server_name = str(getattr(configuration, "tls_server_name", None) or "")
    options: dict[str, Any] = {"maxsize": pool_size, "socket_options": keep_alive()}
    if tls is not None:
        options["ssl_context"] = tls
        if server_name:
            options["server_hostname"] = server_name
            options["assert_hostname"] = server_name
    anonymous = not _authorization(configuration) and not configuration.cert_file
    return Session(serial, server, _pool(configuration, options), tls, server_name, anonymous)


def _pool(configuration: Any, options: dict[str, Any]) -> urllib3.PoolManager:
    from kubernetes.client.rest import should_bypass_proxies

    proxy = configuration.proxy
    if not proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return urllib3.PoolManager(**options)
    if proxy.startswith("socks"):
        from urllib3.contrib.socks import SOCKSProxyManager

        return SOCKSProxyManager(proxy, **options)
    return urllib3.ProxyManager(proxy, proxy_headers=configuration.proxy_headers, **options)


def _tls(configuration: Any) -> ssl.SSLContext:
    """One context for all connections: the CA and the client's key are read once, not per
    connection."""
    with _config_errors():
        tls = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert, cadata=getattr(configuration, "ca_cert_data", None)
        )
        # Python 3.13 refuses CAs without an authority key identifier; many clusters have one, and
        # kubectl takes it.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not configuration.verify_ssl:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return tls
