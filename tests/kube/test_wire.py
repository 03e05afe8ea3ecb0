"""The wire against a server that misbehaves."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from taugrid_ray.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    ServerFault,
    TaugridError,
    Throttled,
    Unreachable,
)
from taugrid_ray.kinds.resource import CONFIG_MAP, NODE, POD, Obj
from taugrid_ray.kube.api import KubeApi, Patch, PodLogs, RawCalls
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.credentials import Direct
from taugrid_ray.kube.wire import Limits, Wire, connect_to
from tests.fake_kube import Face, FakeKube, Trouble


@pytest.fixture
def face() -> Iterator[Face]:
    with Face(FakeKube(SystemClock()), bookmark_s=0.05) as face:
        yield face


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def wire(face: Face, slept: list[float]) -> Iterator[Wire]:
    limits = Limits(connect_s=2, read_s=0.5, patience_s=60, silence_s=0.5)
    wire = Wire(Direct(face.server), limits=limits, sleep=slept.append, rand=lambda: 0.5)
    yield wire
    wire.close()


def make(wire: Wire, name: str = "a") -> Obj:
    return wire.create(CONFIG_MAP, {"metadata": {"name": name}}, "default")


def throttled(retry_after_s: int, **where: str) -> Trouble:
    return Trouble("status", status=429, headers={"Retry-After": str(retry_after_s)}, **where)


def test_it_speaks_the_protocols(wire: Wire) -> None:
    api: KubeApi = wire
    logs: PodLogs = wire
    raw: RawCalls = wire
    assert api is logs is raw


def test_import_leaves_the_kubernetes_package_alone() -> None:
    program = "import sys, taugrid_ray.kube.wire; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_calls_share_one_connection(face: Face, wire: Wire) -> None:
    for number in range(20):
        make(wire, f"a{number}")
        wire.get(CONFIG_MAP, f"a{number}", "default")
    with pytest.raises(AlreadyExists):
        make(wire, "a0")
    wire.delete(CONFIG_MAP, "a0", "default")
    assert face.connections == 1


# What is repeated, and what is not


@pytest.mark.parametrize("verb", ["create", "get"])
def test_a_throttled_call_waits_as_asked_and_is_done_once(
    face: Face, wire: Wire, slept: list[float], verb: str
) -> None:
    """Case 92: 429 with Retry-After, for a write as for a read."""
    if verb == "get":
        make(wire)
    face.trouble.append(throttled(3, verb=verb))
    if verb == "get":
        wire.get(CONFIG_MAP, "a", "default")
    else:
        make(wire)
    assert len(slept) == 1
    assert 3 <= slept[0] < 4
    assert len(face.kube.written(CONFIG_MAP)) == 1


def test_ten_refusals_then_success(face: Face, wire: Wire, slept: list[float]) -> None:
    """Case 92: ten 429s then success: the waits add up."""
    make(wire)
    face.trouble += [throttled(3, verb="get")] * 10
    assert wire.get(CONFIG_MAP, "a", "default")
    assert len(slept) == 10
    assert 30 <= sum(slept) < 60


def test_patience_has_an_end(face: Face, wire: Wire, slept: list[float]) -> None:
    face.trouble += [throttled(3)] * 3
    with pytest.raises(Throttled) as refused:
        make(wire.within(patience_s=5))
    assert refused.value.retry_after_s == 3
    assert refused.value.retryable
    assert len(slept) == 1
    with pytest.raises(Throttled):
        make(wire.within(patience_s=0))
    assert len(slept) == 1
    assert not face.kube.written()


def test_how_long_to_wait_may_stand_in_the_body(face: Face, wire: Wire) -> None:
    body = {"kind": "Status", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}}
    face.trouble.append(Trouble("status", status=429, body=json.dumps(body)))
    with pytest.raises(Throttled) as refused:
        make(wire.within(patience_s=0))
    assert refused.value.retry_after_s == 7


@pytest.mark.parametrize("kind", ["status", "drop", "cut", "silence"])
def test_a_read_is_tried_again(face: Face, wire: Wire, slept: list[float], kind: str) -> None:
    make(wire)
    face.trouble += [Trouble(kind, verb="get")] * 2  # type: ignore[arg-type]
    assert wire.get(CONFIG_MAP, "a", "default")
    assert len(slept) == 2


def test_a_read_is_not_tried_for_ever(face: Face, wire: Wire) -> None:
    face.trouble += [Trouble("status", verb="list", status=503)] * 9
    with pytest.raises(ServerFault):
        wire.list_page(CONFIG_MAP)
    assert len(face.trouble) == 5


def test_a_refused_read_is_not_tried_again(face: Face, wire: Wire, slept: list[float]) -> None:
    face.trouble += [Trouble("status", verb="list", status=403)]
    with pytest.raises(Forbidden):
        wire.list_page(CONFIG_MAP)
    assert not slept


@pytest.mark.parametrize("kind", ["drop", "silence"])
def test_a_write_whose_outcome_is_unknown_is_never_repeated(
    face: Face, wire: Wire, kind: str
) -> None:
    face.trouble.append(Trouble(kind, verb="create"))  # type: ignore[arg-type]
    with pytest.raises(Unreachable):
        make(wire)
    assert len(face.seen) == 1


def test_a_write_whose_answer_is_cut_has_happened(face: Face, wire: Wire) -> None:
    face.trouble.append(Trouble("cut", verb="create"))
    with pytest.raises(Unreachable):
        make(wire)
    with pytest.raises(AlreadyExists):
        make(wire)


def test_a_write_that_failed_in_the_server_is_not_repeated(face: Face, wire: Wire) -> None:
    face.trouble.append(Trouble("status", verb="create", status=500))
    with pytest.raises(ServerFault):
        make(wire)
    assert len(face.seen) == 1


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    wire = connect_to(f"http://127.0.0.1:{port}", limits=Limits(patience_s=0))
    with pytest.raises(Unreachable) as failed:
        wire.get(NODE, "n")
    assert failed.value.message.startswith("get Node n: no answer")


# What is said


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (400, "BadRequest", ApiError),
        (403, "Forbidden", Forbidden),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (500, "InternalError", ServerFault),
        (504, "Timeout", ServerFault),
    ],
)
def test_a_refusal_by_status_and_reason(
    face: Face, wire: Wire, status: int, reason: str, error: type[ApiError]
) -> None:
    body = json.dumps({"kind": "Status", "reason": reason, "message": "because"})
    face.trouble.append(Trouble("status", verb="create", status=status, body=body))
    with pytest.raises(error) as refused:
        make(wire)
    assert type(refused.value) is error
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert refused.value.message == f"create ConfigMap default/a: because (HTTP {status})"


def test_a_message_is_plain_and_short(face: Face, wire: Wire) -> None:
    said = "\x1b[2J\x00\u202ered\r\n" + "x" * 5000
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": said})
    face.trouble.append(Trouble("status", verb="get", status=403, body=body))
    with pytest.raises(Forbidden) as refused:
        wire.get(CONFIG_MAP, "a", "default")
    message = refused.value.message
    assert len(message) <= 1024
    assert message.isprintable()
    assert "red x" in message


def test_what_a_proxy_says_instead(face: Face, wire: Wire) -> None:
    page = "<html><body>Bad gateway, ask Joe</body></html>"
    face.trouble.append(Trouble("status", verb="create", status=502, body=page))
    with pytest.raises(ServerFault) as refused:
        make(wire)
    assert "ask Joe" in refused.value.message


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../secrets/x", "a%2fb"])
def test_a_name_that_is_none_never_reaches_the_server(face: Face, wire: Wire, name: str) -> None:
    """An empty name would make a delete of one object a delete of all."""
    with pytest.raises(Invalid):
        wire.delete(CONFIG_MAP, name, "default")
    with pytest.raises(Invalid):
        wire.get(CONFIG_MAP, "a", name)
    assert not face.seen


def test_strange_characters_stay_one_name(face: Face, wire: Wire) -> None:
    with pytest.raises(TaugridError):
        wire.get(CONFIG_MAP, "a?b=c#d e\x1b", "default")
    assert face.seen[0][1] == "/api/v1/namespaces/default/configmaps/a%3Fb%3Dc%23d%20e%1B"


def test_numbers_keep_their_digits(face: Face, wire: Wire) -> None:
    big = 123456789012345678901234567890
    obj: Obj = {"metadata": {"name": "n"}, "spec": {"big": big}}
    assert wire.create(NODE, obj)["spec"]["big"] == big
    assert wire.get(NODE, "n")["spec"]["big"] == big


# Watches


def test_a_watch_that_is_cut_within_a_line(face: Face, wire: Wire) -> None:
    version = str(face.kube.history.version)
    make(wire, "a")
    make(wire, "b")
    face.trouble.append(Trouble("drop", verb="watch", events=1))
    events = wire.watch(CONFIG_MAP, resource_version=version)
    assert next(events).object["metadata"]["name"] == "a"
    with pytest.raises(Unreachable):
        next(events)


def test_a_watch_that_falls_silent(face: Face, wire: Wire) -> None:
    """Case 91: a read time-out of our own ends a half-dead connection."""
    face.trouble.append(Trouble("silence", verb="watch"))
    with pytest.raises(Unreachable):
        list(wire.watch(CONFIG_MAP, resource_version=str(face.kube.history.version)))


def test_bookmarks_keep_a_quiet_watch_alive(face: Face, wire: Wire) -> None:
    """Case 89. The watch lives three times as long as it may be silent."""
    version = str(face.kube.history.version)
    events = list(wire.watch(CONFIG_MAP, resource_version=version, timeout_s=2))
    assert {event.change.value for event in events} == {"BOOKMARK"}
    assert len(events) > 5


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}', Gone),
        ('{"type":"ERROR","object":{"kind":"Status","code":429}}', Throttled),
        ('{"type":"ERROR","object":{"kind":"Status"}}', ServerFault),
        ('{"type":"ERROR","object":null}', ServerFault),
        ('{"type":"ADDED","object":{"metadata":{}}}', Unreachable),
        ('{"type":"NEWS","object":{"metadata":{"resourceVersion":"1"}}}', Unreachable),
        ('{"type":"ADDED","obj', Unreachable),
        ("[]", Unreachable),
        ("<html>", Unreachable),
    ],
)
def test_a_line_that_is_no_change(
    face: Face, wire: Wire, line: str, error: type[TaugridError]
) -> None:
    face.trouble.append(Trouble("lines", verb="watch", body=line + "\n"))
    with pytest.raises(error):
        list(wire.watch(CONFIG_MAP, resource_version="1"))


def test_a_watch_that_is_left_gives_its_connection_back(face: Face, wire: Wire) -> None:
    before = threading.active_count()
    for _ in range(5):
        events = iter(wire.watch(CONFIG_MAP, resource_version=str(face.kube.history.version)))
        next(events)
        events.close()  # type: ignore[attr-defined]
    make(wire)  # wakes the server's side of those watches, which then finds them closed
    make(wire, "b")
    deadline = threading.Event()
    for _ in range(100):
        if threading.active_count() <= before + 2:
            break
        deadline.wait(0.05)
    assert threading.active_count() <= before + 2


# Beside KubeApi


def test_logs(face: Face, wire: Wire) -> None:
    wire.create(POD, {"metadata": {"name": "p"}, "spec": {}}, "default")
    face.logs["default", "p"] = b"one\ntwo\nthree\n"
    assert b"".join(wire.logs("p", "default")) == b"one\ntwo\nthree\n"
    assert b"".join(wire.logs("p", "default", tail_lines=1, container="main")) == b"three\n"
    assert face.seen[-1][1].endswith("/pods/p/log?container=main&tailLines=1")


def test_a_raw_call_raises_no_status(face: Face, wire: Wire) -> None:
    answer = wire.raw("GET", "/api/v1/namespaces/default/configmaps/none")
    assert answer.status == 404
    assert json.loads(answer.body())["reason"] == "NotFound"
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    answer = wire.raw(
        "POST", "/api/v1/namespaces/default/configmaps", body=body, headers={"X-Mine": "1"}
    )
    assert answer.status == 201
    assert dict(answer.headers)["Content-Type"] == "application/json"
    answer.close()
    assert face.seen[-1][2]["X-Mine"] == "1"


def test_a_patch_says_what_it_is(face: Face, wire: Wire) -> None:
    make(wire)
    for how, body in (
        (Patch.MERGE, {"data": {"a": "1"}}),
        (Patch.JSON, [{"op": "add", "path": "/data/b", "value": "2"}]),
        (Patch.APPLY, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "3"}}),
    ):
        wire.patch(CONFIG_MAP, "a", body, "default", how=how, manager="me", force=True)
        method, path, headers = face.seen[-1]
        assert (method, headers["Content-Type"]) == ("PATCH", how.value)
        assert "fieldManager=me" in path
        assert ("force=true" in path) is (how is Patch.APPLY)
    assert wire.get(CONFIG_MAP, "a", "default")["data"] == {"a": "1", "b": "2", "c": "3"}
