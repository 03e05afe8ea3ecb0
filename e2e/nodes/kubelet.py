"""The part of the kubelet's HTTPS API that the API server needs for `kubectl logs`; to `kubectl
exec` and its like it answers with the command that does the same on this machine.

One server for all nodes of the agent, on the bridge's address. Each Node's status names that
address as its InternalIP, and the port in `daemonEndpoints`. The API server calls

    GET /containerLogs/NAMESPACE/POD/CONTAINER?follow&tailLines&sinceSeconds&previous&limitBytes...

with its `--kubelet-client-certificate` and `--kubelet-client-key`. Where a `client_ca` is given,
nobody without a certificate of that authority is answered. The server's own certificate is made at
start and signed by nobody, so the API server must not have a `--kubelet-certificate-authority`.
"""

from __future__ import annotations

import logging
import select
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from typing_extensions import override

from e2e.cluster.certificates import Authority
from e2e.nodes.logs import LogFile, Part, read_log
from taugrid_ray.kinds.meta import parse_time

log = logging.getLogger(__name__)

IDLE_S = 60.0
ONLY_LOGS = "process nodes serve container logs only"


@dataclass(frozen=True, slots=True)
class Found:
    log: LogFile
    is_live: Callable[[], bool]


Find = Callable[[str, str, str, bool], Found | str]
"""Namespace, pod, container, previous attempt: its log, or a sentence why there is none."""


Enter = Callable[[str, str, str], int]
"""Namespace, pod, container: its first process; 0 where it does not run."""
NOT_SERVED = ("exec", "attach", "portForward", "run")


def other_way(word: str, process: int) -> str:
    """What to do instead of `kubectl exec`, `attach` or `port-forward`."""
    sentence = f"process nodes do not serve {word}: pods are processes of this machine"
    if word == "portForward":
        return f"{sentence}, which reaches their addresses without it (kubectl get pods -o wide)"
    if not process:
        return f"{sentence}, and this container does not run"
    return f"{sentence}; as root on it: nsenter --target {process} --all COMMAND"


class BadQuery(Exception):
    """A query that cannot be read."""


def part_of(query: str, now_s: float) -> tuple[Part, bool]:
    """The part that is asked for, and whether of the attempt before. Raises BadQuery."""
    given = {name: values[-1] for name, values in parse_qs(query).items()}

    def number(name: str) -> int | None:
        if name not in given:
            return None
        if not given[name].isascii() or not given[name].isdigit():
            raise BadQuery(f"{name} must be a whole number, not {given[name]!r}")
        return int(given[name])

    since = number("sinceSeconds")
    since_s = None if since is None else now_s - since
    if "sinceTime" in given:
        try:
            since_s = parse_time(given["sinceTime"])
        except ValueError as error:
            raise BadQuery(f"sinceTime: {error}") from error
    part = Part(
        follow=_is_true(given.get("follow")),
        tail_lines=number("tailLines"),
        since_s=since_s,
        limit_bytes=number("limitBytes"),
        timestamps=_is_true(given.get("timestamps")),
    )
    return part, _is_true(given.get("previous"))


def _is_true(text: str | None) -> bool:
    return text in ("true", "True", "1")


class Server:
    """Serves until the program ends."""

    def __init__(
        self,
        address: str,
        find: Find,
        enter: Enter,
        *,
        port: int = 0,
        client_ca: Path | None = None,
    ) -> None:
        told = {"find": staticmethod(find), "enter": staticmethod(enter)}
        handler = type("Handler", (_Handler,), told)
        self._server = _TlsServer((address, port), handler, _context(address, client_ca))
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        Thread(target=self._server.serve_forever, name="kubelet", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _context(address: str, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = Authority.new("process-node").server("process-node", [address], [])
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _TlsServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any, context: ssl.SSLContext) -> None:
        super().__init__(address, handler)
        self._context = context

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread, so that a slow handshake holds up nobody else."""
        request.settimeout(IDLE_S)
        try:
            with self._context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except (OSError, ssl.SSLError) as error:
            log.debug("kubelet: %s: %s", client_address, error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    find: Find
    enter: Enter

    def do_POST(self) -> None:
        self.close_connection = True  # its body, if any, is not read
        words = self._words()
        if words[0] not in NOT_SERVED:
            return self._answer(HTTPStatus.NOT_FOUND, ONLY_LOGS)
        pod = words[1:3] if len(words) >= 3 else ["", ""]
        process = self.enter(pod[0], pod[1], words[-1])
        return self._answer(HTTPStatus.NOT_IMPLEMENTED, other_way(words[0], process))

    def _words(self) -> list[str]:
        return [unquote(word) for word in urlsplit(self.path).path.strip("/").split("/")]

    def do_GET(self) -> None:
        words = self._words()
        if words == ["healthz"]:
            return self._answer(HTTPStatus.OK, "ok")
        if words[0] in NOT_SERVED:  # over a WebSocket
            return self.do_POST()
        if len(words) != 4 or words[0] != "containerLogs":
            return self._answer(HTTPStatus.NOT_FOUND, ONLY_LOGS)
        try:
            part, previous = part_of(urlsplit(self.path).query, time.time())
        except BadQuery as error:
            return self._answer(HTTPStatus.BAD_REQUEST, str(error))
        found = self.find(words[1], words[2], words[3], previous)
        if isinstance(found, str):
            return self._answer(HTTPStatus.BAD_REQUEST, found)
        return self._stream(found, part)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, found: Found, part: Part) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in read_log(found.log, part, found.is_live):
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            elif self._reader_left():
                break
        else:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _reader_left(self) -> bool:
        """A client that has nothing to say is readable only when it closed the connection."""
        return bool(select.select([self.connection], [], [], 0)[0])

    @override
    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
