"""KubeApi over one urllib3 pool, with plain dicts.

One pool for all calls: connections are kept, so a call costs no TLS handshake. Numbers keep their
digits (the standard json reads integers of any size).

What is repeated, and what never is. A 429 means the server did nothing, so every verb is tried
again after the time it asked for. A read is also tried again after a broken connection or a 5xx. A
write whose outcome is unknown is never repeated here: it raises Unreachable, and the caller, who is
convergent, reads and decides again. `patience_s` bounds what one call may sleep; 0 hands the
decision to the caller at once. A watch is never repeated here either: `reflector.py` does that,
because it knows from where to go on.

A half-dead connection says nothing for ever. Keep-alive probes find a peer that is gone within a
minute. A peer that answers them and is stuck all the same shows by its silence: the API server
sends a bookmark to a quiet watch each minute, now and then only each second minute (measured,
1.36.3), so a watch that is silent for `WATCH_SILENCE_S` is given up.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import tenacity
import urllib3

from taugrid_ray.errors import Throttled, Unauthorized, Unreachable
from taugrid_ray.kinds.resource import POD, Obj, Resource
from taugrid_ray.kube.answers import error_from, plain
from taugrid_ray.kube.api import Answer, Page, Patch, WatchEvent
from taugrid_ray.kube.call import Call, event, lines, network_errors, pieces
from taugrid_ray.kube.credentials import Credentials, Direct, Session, find
from taugrid_ray.names import FIELD_MANAGER

WATCH_SILENCE_S = 150.0
READ_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one call may take."""

    connect_s: float = 10.0
    read_s: float = 30.0
    patience_s: float = 30.0
    """The sum of sleeps between attempts of one call."""
    silence_s: float = WATCH_SILENCE_S


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    user_agent: str = FIELD_MANAGER,
    pool_size: int = 16,
    limits: Limits | None = None,
) -> Wire:
    """A Wire to the cluster that kubectl would talk to. Makes no call yet.

    Raises UsageError where no kubeconfig is found or it cannot be used.
    """
    credentials = find(kubeconfig, context, pool_size=pool_size)
    return Wire(credentials, user_agent=user_agent, limits=limits)


def connect_to(
    server: str, *, user_agent: str = FIELD_MANAGER, limits: Limits | None = None
) -> Wire:
    """A Wire to an address that asks for no credentials, such as `kubectl proxy`."""
    return Wire(Direct(server), user_agent=user_agent, limits=limits)


class Wire:
    """Speaks `KubeApi` and `PodLogs`. Safe for several threads."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str = FIELD_MANAGER,
        limits: Limits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self.credentials = credentials
        self.limits = limits or Limits()
        self._user_agent = user_agent
        self._sleep = sleep
        self._rand = rand

    @property
    def namespace(self) -> str:
        """Where the context stands; "default" where it says none."""
        return self.credentials.namespace

    def close(self) -> None:
        """Close the idle connections, of all that share this pool."""
        self.credentials.session().pool.clear()

    def within(
        self,
        *,
        connect_s: float | None = None,
        read_s: float | None = None,
        patience_s: float | None = None,
        silence_s: float | None = None,
    ) -> Wire:
        """The same pool and credentials with other limits, such as a lease's short ones."""
        given = {
            "connect_s": connect_s,
            "read_s": read_s,
            "patience_s": patience_s,
            "silence_s": silence_s,
        }
        limits = replace(self.limits, **{k: v for k, v in given.items() if v is not None})
        return Wire(
            self.credentials,
            user_agent=self._user_agent,
            limits=limits,
            sleep=self._sleep,
            rand=self._rand,
        )

    # Reads

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> Obj:
        return self._call(Call("get", kind, namespace, name, method="GET"))

    def list_page(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        page: str = "",
    ) -> Page:
        query = _given(
            labelSelector=labels, fieldSelector=fields, limit=str(page_size), **{"continue": page}
        )
        got = self._call(Call("list", kind, namespace, method="GET", query=query))
        meta = got.get("metadata") or {}
        version = str(meta.get("resourceVersion"))
        if not version.isdecimal():
            raise Unreachable(f"list {kind.kind}: the answer is not a list")
        items = tuple(_named(item, kind) for item in got.get("items") or ())
        return Page(items, version, str(meta.get("continue") or ""))

    def watch(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
    ) -> Iterator[WatchEvent]:
        query = _given(labelSelector=labels, fieldSelector=fields)
        query |= {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        call = Call("watch", kind, namespace, method="GET", query=query)
        with self._stream(call, read_s=self.limits.silence_s) as response:
            for line in lines(response, call.what):
                yield event(line, call.what)

    # Writes

    def create(
        self,
        kind: Resource,
        obj: Obj,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        strict: bool = False,
    ) -> Obj:
        where = namespace or (obj.get("metadata") or {}).get("namespace")
        name = str((obj.get("metadata") or {}).get("name", ""))
        query = _write(dry_run) | ({"fieldValidation": "Strict"} if strict else {})
        call = Call("create", kind, where, method="POST", body=obj, query=query, shown=name)
        return self._call(call)

    def patch(
        self,
        kind: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        how: Patch = Patch.MERGE,
        sub: str = "",
        manager: str = FIELD_MANAGER,
        force: bool = False,
        dry_run: bool = False,
    ) -> Obj:
        query = _write(dry_run, manager)
        if how is Patch.APPLY and force:
            query["force"] = "true"
        call = Call(
            "patch", kind, namespace, name, sub, "PATCH", query, body, content_type=how.value
        )
        return self._call(call)

    def replace(
        self, kind: Resource, obj: Obj, namespace: str | None = None, *, sub: str = ""
    ) -> Obj:
        meta = obj["metadata"]
        where = namespace or meta.get("namespace")
        return self._call(Call("replace", kind, where, meta["name"], sub, "PUT", _write(), obj))

    def delete(
        self,
        kind: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        options: Obj = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
        }
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self._call(Call("delete", kind, namespace, name, method="DELETE", body=options))

    # Beyond KubeApi: what only people ask for

    def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        tail_lines: int | None = None,
        previous: bool = False,
        since_s: int | None = None,
        timestamps: bool = False,
    ) -> Iterator[bytes]:
        """A container's output in pieces as they come. With `follow`, until the container ends."""
        query = _given(
            container=container,
            follow="true" if follow else "",
            tailLines="" if tail_lines is None else str(tail_lines),
            previous="true" if previous else "",
            sinceSeconds="" if since_s is None else str(since_s),
            timestamps="true" if timestamps else "",
        )
        call = Call("read the log of", POD, namespace, name, "log", "GET", query)
        # A program may say nothing for hours, so a followed log has no read time-out.
        with self._stream(call, read_s=None if follow else self.limits.read_s) as response:
            yield from response.stream(65536)

    def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float | None = None,
    ) -> Answer:
        """One call as it is, to any path of the API server, such as a service proxy; no status
        raises.

        `path` is sent as given: the caller has quoted it. Never repeated. Close the answer or read
        it to the end.
        """
        session = self.credentials.session()
        with network_errors(f"{method} {plain(path, length=200)}"):
            response = session.pool.request(
                method,
                session.server + path,
                body=body,
                headers={**self._headers(), **(headers or {})},
                timeout=urllib3.Timeout(self.limits.connect_s, read_s or self.limits.read_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        return Answer(
            status=response.status,
            headers=tuple(response.headers.items()),
            pieces=pieces(response, f"{method} {plain(path, length=200)}"),
            close=response.close,
        )

    # The mechanism

    def _call(self, call: Call) -> Obj:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(call.may_repeat),
            wait=self._wait_s,
            stop=self._is_enough,
            sleep=self._sleep,
            reraise=True,
        )
        result: Obj = retrying(self._send, call)
        return result

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked_s = getattr(error, "retry_after_s", None) or 0.0
        backoff_s = min(5.0, 0.1 * 2.0**state.attempt_number)
        return float(asked_s + backoff_s * self._rand())

    def _is_enough(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, Throttled) and state.attempt_number >= READ_ATTEMPTS:
            return True
        asked_s = getattr(error, "retry_after_s", None) or 0.0
        spent_s = max(state.idle_for, state.seconds_since_start or 0.0)
        return spent_s + asked_s >= self.limits.patience_s

    def _send(self, call: Call) -> Obj:
        response = self._open(call, preload=True, read_s=self.limits.read_s)
        try:
            answer = json.loads(response.data)
        except ValueError as error:
            raise Unreachable(f"{call.what}: the answer is not JSON, or was cut off") from error
        if not isinstance(answer, dict):
            raise Unreachable(f"{call.what}: the answer is not an object")
        return answer

    @contextmanager
    def _stream(self, call: Call, *, read_s: float | None) -> Iterator[urllib3.BaseHTTPResponse]:
        response = self._open(call, preload=False, read_s=read_s)
        try:
            with network_errors(call.what):
                yield response
        finally:
            response.close()

    def _open(self, call: Call, *, preload: bool, read_s: float | None) -> urllib3.BaseHTTPResponse:
        """Send; after a 401 once more with fresh credentials; a refusal raises."""
        session = self.credentials.session()
        response = self._request(session, call, preload=preload, read_s=read_s)
        if response.status == 401 and self.credentials.renew(session.serial):
            response.drain_conn()
            session = self.credentials.session()
            response = self._request(session, call, preload=preload, read_s=read_s)
        if response.status < 400:
            return response
        with network_errors(call.what):
            body = response.data
        error = error_from(
            call.what,
            response.status,
            body,
            response.headers,
            has_test=call.has_test,
        )
        if isinstance(error, Unauthorized) and session.anonymous:
            error.hint = (
                "no credentials were sent: check the kubeconfig's user and its exec plug-in"
            )
        raise error

    def _request(
        self, session: Session, call: Call, *, preload: bool, read_s: float | None
    ) -> urllib3.BaseHTTPResponse:
        headers = self._headers()
        body = None
        if call.body is not None:
            headers["Content-Type"] = call.content_type
            body = json.dumps(call.body, separators=(",", ":"), ensure_ascii=False).encode()
        with network_errors(call.what):
            return session.pool.request(
                call.method,
                session.server + call.url,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self.limits.connect_s, read=read_s),
                retries=False,
                redirect=False,
                preload_content=preload,
            )

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": self._user_agent, "Accept": "application/json"}
        authorization = self.credentials.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _given(**query: str) -> dict[str, str]:
    return {name: value for name, value in query.items() if value}


def _write(dry_run: bool = False, manager: str = FIELD_MANAGER) -> dict[str, str]:
    return {"fieldManager": manager} | ({"dryRun": "All"} if dry_run else {})


def _named(item: Obj, kind: Resource) -> Obj:
    """Items of a list of built-in kinds come without apiVersion and kind; an object alone has
    them."""
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
    return item
