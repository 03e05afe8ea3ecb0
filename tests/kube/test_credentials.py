"""Kubeconfig files, tokens that change, plug-ins, proxies."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from taugrid_ray.errors import Unauthorized, UsageError
from taugrid_ray.kinds.resource import NAMESPACE
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.reflector import Reflector
from taugrid_ray.kube.wire import Wire, connect
from tests.fake_kube import Face, FakeKube


@pytest.fixture
def face() -> Iterator[Face]:
    kube = FakeKube(SystemClock(), namespaces=["default"])
    with Face(kube, bookmark_s=0.05) as face:
        yield face


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("KUBECONFIG", "KUBERNETES_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, server: str, *, user: Any = None, **cluster: Any) -> str:
    contexts = [
        {"name": "one", "context": {"cluster": "c", "user": "u"}},
        {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "team-b"}},
    ]
    text = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "one",
            "contexts": contexts,
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "u", "user": user or {}}],
        }
    )
    path.write_text(text)
    return str(path)


def names(wire: Wire) -> list[str]:
    found = wire.list_page(NAMESPACE).items
    wire.close()
    return [item["metadata"]["name"] for item in found]


def test_a_token_file_that_is_replaced(face: Face, tmp_path: Path) -> None:
    """Case 94: the token is read anew at once after a 401, and the user sees no error."""
    token = tmp_path / "token"
    token.write_text("first")
    face.tokens = {"first"}
    config = write(tmp_path / "config", face.server, user={"tokenFile": str(token)})
    wire = connect(kubeconfig=config)
    assert names(wire) == ["default"]
    token.write_text("second\n")
    face.tokens = {"second"}
    assert names(wire) == ["default"]
    assert len(face.seen) == 3
    assert names(wire) == ["default"]
    assert len(face.seen) == 4


def test_a_token_that_is_replaced_under_a_watch(face: Face, tmp_path: Path) -> None:
    """Case 94: swapped in mid-watch; the reflector notices nothing."""
    token = tmp_path / "token"
    token.write_text("first")
    face.tokens = {"first"}
    config = write(tmp_path / "config", face.server, user={"tokenFile": str(token)})
    wire = connect(kubeconfig=config)
    said: list[Any] = []
    reflector = Reflector(
        wire, NAMESPACE, lambda obj: obj["metadata"]["name"], said.append, clock=SystemClock()
    )
    while not reflector.step().quiet:
        pass
    token.write_text("second")
    face.tokens = {"second"}
    face.kube.create(NAMESPACE, {"metadata": {"name": "later"}})
    while not any(getattr(change, "new", "") == "later" for change in said):
        assert reflector.step().wait_s == 0
    reflector.close()
    assert reflector.step().wait_s == 0
    assert reflector.trouble is None
    reflector.close()
    wire.close()


def test_a_lasting_401_is_named_and_not_hammered(face: Face, tmp_path: Path) -> None:
    face.tokens = {"another"}
    wire = connect(kubeconfig=write(tmp_path / "config", face.server, user={"token": "mine"}))
    with pytest.raises(Unauthorized) as refused:
        wire.list_page(NAMESPACE)
    wire.close()
    assert len(face.seen) == 2
    assert refused.value.message.startswith("list Namespace: Unauthorized")
    assert "log in again" in refused.value.hint


def test_a_plug_in_is_asked_again_after_a_401(face: Face, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    runs = tmp_path / "runs"
    program = (
        f"import pathlib; print(pathlib.Path({str(answer)!r}).read_text());"
        f"open({str(runs)!r}, 'a').write('x')"
    )

    def says(token: str) -> None:
        kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        answer.write_text(json.dumps(kind | {"status": {"token": token}}))

    says("first")
    face.tokens = {"first"}
    plug_in = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", program],
        "interactiveMode": "Never",
    }
    wire = connect(kubeconfig=write(tmp_path / "config", face.server, user={"exec": plug_in}))
    for _ in range(3):
        assert names(wire) == ["default"]
    assert runs.read_text() == "x"
    says("second")
    face.tokens = {"second"}
    assert names(wire) == ["default"]
    assert runs.read_text() == "xx"


def test_a_plug_in_that_fails_is_pointed_at(face: Face, tmp_path: Path) -> None:
    face.tokens = {"any"}
    plug_in = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}
    wire = connect(kubeconfig=write(tmp_path / "config", face.server, user={"exec": plug_in}))
    with pytest.raises(Unauthorized) as refused:
        wire.list_page(NAMESPACE)
    wire.close()
    assert "exec plug-in" in refused.value.hint


def test_a_user_with_a_password(face: Face, tmp_path: Path) -> None:
    user = {"username": "joe", "password": "pass"}
    names(connect(kubeconfig=write(tmp_path / "config", face.server, user=user)))
    assert face.seen[0][2]["Authorization"] == "Basic am9lOnBhc3M="


def test_a_proxy_is_used(face: Face, tmp_path: Path) -> None:
    config = write(tmp_path / "config", "http://cluster.invalid", **{"proxy-url": face.server})
    assert names(connect(kubeconfig=config)) == ["default"]
    assert face.seen[0][1].startswith("http://cluster.invalid/api/v1/namespaces")


def test_a_proxy_of_the_environment_is_used_or_left_out(
    face: Face, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", face.server)
    config = write(tmp_path / "config", "http://cluster.invalid")
    assert names(connect(kubeconfig=config)) == ["default"]
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert names(connect(kubeconfig=write(tmp_path / "config", face.server))) == ["default"]


def test_where_a_kubeconfig_is_looked_for(
    face: Face, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no cluster to talk to"):
        connect()
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    write(home / "config", face.server)
    assert names(connect()) == ["default"]
    other = write(tmp_path / "other", face.server, user={"token": "of-other"})
    monkeypatch.setenv("KUBECONFIG", f"/does/not/exist{os.pathsep}{other}")
    names(connect())
    assert face.seen[-1][2]["Authorization"] == "Bearer of-other"
    given = write(tmp_path / "given", face.server, user={"token": "of-given"})
    names(connect(kubeconfig=given))
    assert face.seen[-1][2]["Authorization"] == "Bearer of-given"


def test_the_context_says_the_namespace(face: Face, tmp_path: Path) -> None:
    config = write(tmp_path / "config", face.server)
    assert connect(kubeconfig=config).namespace == "default"
    assert connect(kubeconfig=config, context="two").namespace == "team-b"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("[1]", None, id="no mapping"),
        pytest.param("{", None, id="no YAML"),
        pytest.param("{current-context: x, contexts: [], clusters: [], users: []}", None,
                     id="a context that is not there"),
        pytest.param("{current-context: x}", "other", id="another context that is not there"),
        pytest.param("{}", None, id="nothing in it"),
    ],
)  # fmt: skip
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, text: str, context: str | None) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(UsageError):
        connect(kubeconfig=str(path), context=context)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        connect(kubeconfig=str(tmp_path / "none"))
