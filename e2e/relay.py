"""A way to the API server that can be cut at any write: for kill -9 between any two calls.

The controller is started with a kubeconfig that names this relay; the relay adds the controller's
own credentials and forwards everything as it is. Before or after the n-th write it calls `crash`,
which kills the controller: before, the write never happened; after, it happened and nobody was
told. No code of the controller knows of it.
"""

from __future__ import annotations

import base64
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml
from typing_extensions import override

WRITES = ("POST", "PUT", "PATCH", "DELETE")
_HOP = ("connection", "host", "content-length", "transfer-encoding", "accept-encoding")


@dataclass(frozen=True, slots=True)
class Cut:
    """Crash at write number `at` (from 1), before it is forwarded or after it was answered."""

    at: int
    before: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """One write, with the cut that was armed when it came."""

    number: int
    cut: Cut | None
    crash: Callable[[], None]

    @property
    def dies_before(self) -> bool:
        return self.cut is not None and self.cut.before and self.cut.at == self.number

    @property
    def dies_after(self) -> bool:
        return self.cut is not None and not self.cut.before and self.cut.at == self.number

    @property
    def comes_too_late(self) -> bool:
        """Its sender died before it: a write that never happened."""
        return self.cut is not None and self.cut.before and self.number >= self.cut.at


def _trust(config: Any) -> ssl.SSLContext:
    """A kubeconfig's authority and client certificate, both with their data in it."""
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    # A certificate can be loaded from a file only.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
        pair.write(base64.b64decode(user["client-key-data"]))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """That the sender dies in the middle of a call is what a relay is for."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Relay:
    """Serves on a free port of 127.0.0.1 until `close`."""

    def __init__(
        self, server: str, kubeconfig: Path, *, counts: Callable[[str, str], bool]
    ) -> None:
        """counts: which writes (method, path) are counted; the lease's renewals should not be."""
        self._server = server
        self._counts = counts
        self._lock = threading.Lock()
        self._cut: Cut | None = None
        self._crash: Callable[[], None] = lambda: None
        self.writes: list[str] = []
        self._pool = urllib3.PoolManager(
            num_pools=2, maxsize=64, ssl_context=_trust(yaml.safe_load(kubeconfig.read_text()))
        )
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def arm(self, cut: Cut | None, crash: Callable[[], None]) -> None:
        """From now on count writes from 1 and crash at the cut."""
        with self._lock:
            self._cut, self._crash, self.writes = cut, crash, []

    def write_kubeconfig(self, path: Path) -> Path:
        address = f"http://127.0.0.1:{self._http.server_port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "relay",
            "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "relay"}}],
            "clusters": [{"name": "relay", "cluster": {"server": address}}],
            "users": [{"name": "relay", "user": {}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def before(self, method: str, path: str) -> Counted | None:
        """Note a write, and crash if it is the one. None for what does not count."""
        if method not in WRITES or not self._counts(method, path):
            return None
        with self._lock:
            self.writes.append(f"{method} {path.partition('?')[0]}")
            counted = Counted(len(self.writes), self._cut, self._crash)
        if counted.dies_before:
            counted.crash()
        return counted

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        return self._pool.request(
            method,
            self._server + path,
            headers=headers,
            body=body or None,
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=400),
            retries=False,
            redirect=False,
        )


def _handler(relay: Relay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
            counted = relay.before(self.command, self.path)
            if counted is not None and counted.comes_too_late:
                self.close_connection = True
                return
            answer = relay.forward(self.command, self.path, headers, body)
            if counted is not None:
                # All of it has happened on the server before anybody may hear of it.
                whole = answer.read(decode_content=True)
                if counted.dies_after:
                    counted.crash()
                self._send(answer, whole)
                return
            self._stream(answer)

        def _send(self, answer: Any, whole: bytes) -> None:
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in (*_HOP, "content-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                self.wfile.write(whole)
            except OSError:
                self.close_connection = True

        def _stream(self, answer: Any) -> None:
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in (*_HOP, "content-encoding"):
                        self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for chunk in answer.stream(65536, decode_content=True):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except (OSError, urllib3.exceptions.HTTPError):
                self.close_connection = True
            finally:
                answer.release_conn()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _relay

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Requests are in the API server's audit log."""

    return Handler
