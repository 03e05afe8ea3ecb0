"""FakeKube over HTTP on a free port of 127.0.0.1, so that the real Wire can be tried against it.

Beside what FakeKube itself can do wrong, the wire can go wrong here: `trouble` is a queue of things
that happen to the requests that match, each once: a status with headers, an answer cut in half, a
connection that is dropped (a watch: after some events), or silence.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from taugrid_ray.errors import ApiError
from taugrid_ray.kinds import resource
from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.api import Patch, WatchEvent

from .fake import FakeKube

_KINDS = {
    (kind.group, kind.version, kind.plural): kind
    for kind in vars(resource).values()
    if isinstance(kind, Resource)
}
_PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?$"
)
_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "replace", "DELETE": "delete"}


@dataclass
class Trouble:
    """What happens to one request of `verb` ("list" and "watch" are verbs here; "*": any).

    kind: "status" answers `status` with `headers` and `body`; "cut" sends half of the true answer;
    "drop" closes the connection (a watch: after `events` events, in the middle of a chunk);
    "silence" says nothing more until the face is closed (a watch: after `events` events); "lines"
    sends `body` as the lines of a watch and ends.
    """

    kind: Literal["status", "cut", "drop", "silence", "lines"]
    verb: str = "*"
    plural: str = ""
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    events: int = 0

    def hits(self, verb: str, plural: str) -> bool:
        return self.verb in ("*", verb) and self.plural in ("", plural)


class Face:
    """Use as a context manager; `server` is its address.

    tokens: accepted bearer tokens; None asks for none. bookmark_s: how long a watch is quiet before
    it gets a bookmark. Must be short: each costs a loop.
    """

    def __init__(
        self, kube: FakeKube, *, bookmark_s: float = 0.2, tls: ssl.SSLContext | None = None
    ) -> None:
        self.kube = kube
        self.trouble: list[Trouble] = []
        self.tokens: set[str] | None = None
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        """(method, path with query, headers) of all requests."""
        self.connections = 0
        self.logs: dict[tuple[str, str], bytes] = {}
        """(namespace, pod) -> what it printed."""
        self.closing = threading.Event()
        kube.quiet_s = bookmark_s
        face = self

        class Handler(_Handler):
            owner = face

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def server(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def __enter__(self) -> Face:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def due(self, verb: str, plural: str) -> Trouble | None:
        for trouble in self.trouble:
            if trouble.hits(verb, plural):
                self.trouble.remove(trouble)
                return trouble
        return None


@dataclass(frozen=True)
class _Asked:
    verb: str
    kind: Resource
    namespace: str | None
    name: str | None
    sub: str
    query: dict[str, str]
    body: Any
    how: str


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """That a client goes away in the middle of a call is what some tests are about."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    owner: Face
    protocol_version = "HTTP/1.1"
    timeout = 60.0

    def setup(self) -> None:
        super().setup()
        self.owner.connections += 1
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        try:
            self._answer()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.owner.seen.append((self.command, self.path, dict(self.headers.items())))
        tokens = self.owner.tokens
        if tokens is not None:
            token = (self.headers.get("Authorization") or "").partition(" ")[2]
            if token not in tokens:
                self._refuse(ApiError("Unauthorized", status=401, reason="Unauthorized"))
                return
        try:
            asked = self._asked(body)
            trouble = self.owner.due(asked.verb, asked.kind.plural)
            if trouble is not None and self._suffer(trouble, asked.verb):
                return
            if asked.verb == "watch":
                self._watch(asked, trouble)
            elif asked.sub == "log":
                self._send(200, self._log(asked), "text/plain")
            else:
                self._send_json(201 if asked.verb == "create" else 200, self._do(asked), trouble)
        except ApiError as error:
            self._refuse(error)

    def _asked(self, body: bytes) -> _Asked:
        url = urlsplit(self.path)
        found = _PATH.match(url.path)
        group, version, plural = (
            (found["group"] or "", found["version"], found["plural"]) if found else ("", "", "")
        )
        kind = _KINDS.get((group, version, plural))
        if found is None or kind is None:
            raise ApiError("the server could not find the requested resource", status=404)
        query = dict(parse_qsl(url.query))
        name = unquote(found["name"]) if found["name"] else None
        verb = _VERBS[self.command]
        if verb == "get" and name is None:
            verb = "watch" if query.get("watch") == "true" else "list"
        try:
            parsed = json.loads(body) if body else None
        except ValueError as error:
            raise ApiError("the body is not JSON", status=400, reason="BadRequest") from error
        namespace = unquote(found["namespace"]) if found["namespace"] else None
        how = self.headers.get("Content-Type") or ""
        return _Asked(verb, kind, namespace, name, found["sub"] or "", query, parsed, how)

    def _do(self, asked: _Asked) -> Obj:
        kube, kind, name = self.owner.kube, asked.kind, asked.name or ""
        query, dry_run = asked.query, asked.query.get("dryRun") == "All"
        manager = query.get("fieldManager", "unknown")
        if asked.verb == "list":
            return self._list(asked)
        if asked.verb == "get":
            return kube.get(kind, name, asked.namespace)
        if asked.verb == "create":
            return kube.create(kind, asked.body, asked.namespace, dry_run=dry_run, manager=manager)
        if asked.verb == "replace":
            return kube.replace(kind, asked.body, asked.namespace, sub=asked.sub)
        if asked.verb == "patch":
            return kube.patch(
                kind,
                name,
                asked.body,
                asked.namespace,
                how=Patch(asked.how),
                sub=asked.sub,
                manager=manager,
                force=query.get("force") == "true",
                dry_run=dry_run,
            )
        options = asked.body or {}
        kube.delete(
            kind,
            name,
            asked.namespace,
            uid=(options.get("preconditions") or {}).get("uid", ""),
            propagation=options.get("propagationPolicy", "Background"),
            grace_s=options.get("gracePeriodSeconds"),
        )
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def _list(self, asked: _Asked) -> Obj:
        page = self.owner.kube.list_page(
            asked.kind,
            asked.namespace,
            labels=asked.query.get("labelSelector", ""),
            fields=asked.query.get("fieldSelector", ""),
            page_size=int(asked.query.get("limit", "500")),
            page=asked.query.get("continue", ""),
        )
        meta = {"resourceVersion": page.resource_version}
        if page.next_page:
            meta["continue"] = page.next_page
        return {
            "kind": f"{asked.kind.kind}List",
            "apiVersion": asked.kind.api_version,
            "metadata": meta,
            "items": list(page.items),
        }

    def _log(self, asked: _Asked) -> bytes:
        self.owner.kube.get(asked.kind, asked.name or "", asked.namespace)
        printed = self.owner.logs.get((asked.namespace or "", asked.name or ""), b"")
        tail = asked.query.get("tailLines")
        return b"".join(printed.splitlines(keepends=True)[-int(tail) :]) if tail else printed

    # Answers

    def _watch(self, asked: _Asked, trouble: Trouble | None) -> None:
        events = self.owner.kube.watch(
            asked.kind,
            asked.namespace,
            resource_version=asked.query.get("resourceVersion", "0"),
            labels=asked.query.get("labelSelector", ""),
            fields=asked.query.get("fieldSelector", ""),
            timeout_s=float(asked.query.get("timeoutSeconds", "300")),
        )
        first = next(events, None)  # a version that is too old is an HTTP status, not an event
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for sent, line in enumerate(self._lines(first, events)):
            if trouble is not None and sent >= trouble.events:
                if trouble.kind == "silence":
                    self.owner.closing.wait()
                self.wfile.write(b"100\r\n" + line[: len(line) // 2])
                self.close_connection = True
                return
            self._chunk(line)
            if self.owner.closing.is_set():
                break
        self._chunk(b"")

    def _lines(self, first: WatchEvent | None, events: Iterator[WatchEvent]) -> Iterator[bytes]:
        try:
            event = first
            while event is not None:
                yield _line(event.change.value, event.object)
                event = next(events, None)
        except ApiError as error:
            yield _line("ERROR", _status(error))

    def _suffer(self, trouble: Trouble, verb: str) -> bool:
        """True where the request is over with that."""
        if trouble.kind == "status":
            self._send(trouble.status, trouble.body.encode(), "application/json", trouble.headers)
            return True
        if trouble.kind == "lines":
            self._send(200, trouble.body.encode(), "application/json")
            return True
        if verb == "watch" or trouble.kind == "cut":
            return False
        if trouble.kind == "silence":
            self.owner.closing.wait()
        self.close_connection = True
        return True

    def _send_json(self, status: int, obj: Obj, trouble: Trouble | None) -> None:
        body = json.dumps(obj).encode()
        self._send(status, body[: len(body) // 2] if trouble else body, "application/json")

    def _refuse(self, error: ApiError) -> None:
        headers = {}
        if error.retry_after_s is not None:
            headers["Retry-After"] = str(round(error.retry_after_s))
        body = json.dumps(_status(error)).encode()
        self._send(error.status, body, "application/json", headers)

    def _send(
        self, status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _line(change: str, obj: Obj) -> bytes:
    return json.dumps({"type": change, "object": obj}).encode() + b"\n"


def _status(error: ApiError) -> Obj:
    said = error.message
    if error.status == 422 and said.startswith("the patch does not fit"):
        said = "the server rejected our request due to an error in our request"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": said,
        "reason": error.reason,
        "code": error.status,
    }
