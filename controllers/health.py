"""/healthz, /readyz and /metrics on one port, with the standard library's server."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from typing_extensions import override

from controllers.runtime import Runtime


def serve(runtime: Runtime, address: str, port: int) -> ThreadingHTTPServer:
    """Serve in the background until `shutdown()`. port 0: a free one, see `server_port`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(200 if runtime.is_alive else 503, b"alive\n")
            elif self.path == "/readyz":
                self._answer(200 if runtime.is_ready else 503, b"synced\n")
            elif self.path == "/metrics":
                body = generate_latest(runtime.metrics.registry)
                self._answer(200, body, CONTENT_TYPE_LATEST)
            else:
                self._answer(404, b"/healthz /readyz /metrics\n")

        def _answer(self, status: int, body: bytes, content_type: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Probes are no news."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
