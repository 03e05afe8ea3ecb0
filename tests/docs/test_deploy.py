"""deploy/ is whole: what `kubectl apply -k deploy/` installs starts, and with the right to work."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement

from controllers import __main__ as controller
from controllers import health
from taugrid_ray import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def objects(file: str) -> list[Any]:
    return [doc for doc in yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8")) if doc]


def kustomization() -> Any:
    (only,) = objects("kustomization.yaml")
    return only


def deployment() -> Any:
    (only,) = objects("controller.yaml")
    return only


def container() -> Any:
    (only,) = deployment()["spec"]["template"]["spec"]["containers"]
    return only


def test_kustomization_lists_every_manifest() -> None:
    there = {f.relative_to(DEPLOY).as_posix() for f in DEPLOY.rglob("*.yaml")}
    assert {*kustomization()["resources"], "kustomization.yaml"} == there


def test_every_manifest_names_what_it_is() -> None:
    for file in kustomization()["resources"]:
        for obj in objects(file):
            assert obj["apiVersion"], file
            assert obj["kind"], file
            assert obj["metadata"]["name"], file


def test_the_image_is_the_one_that_kustomization_sets() -> None:
    (image,) = kustomization()["images"]
    assert container()["image"] == image["name"]
    assert image["newTag"] == __version__
    assert f"taugrid-ray-controller:{__version__}" in DOCKERFILE


def test_arguments_are_options_of_the_controller() -> None:
    parser = controller.main.make_context("controllers", list(container()["args"]))
    assert parser.params["with_lease"]
    assert parser.params["identity"] == "$(POD_NAME)"
    assert parser.params["lease_namespace"] == "$(POD_NAMESPACE)"


def test_every_variable_in_an_argument_is_set() -> None:
    used = re.findall(r"\$\((\w+)\)", " ".join(container()["args"]))
    values = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container()["env"]}
    assert values == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    assert set(used) == set(values)


def test_probes_ask_the_port_and_paths_that_are_served() -> None:
    params = controller.main.make_context("controllers", list(container()["args"])).params
    (port,) = container()["ports"]
    assert params["health_port"] == port["containerPort"]
    served = Path(health.__file__).read_text(encoding="utf-8")
    for probe in ("livenessProbe", "readinessProbe"):
        get = container()[probe]["httpGet"]
        assert get["port"] == port["name"]
        assert f'"{get["path"]}"' in served


def test_it_runs_as_the_service_account_that_has_the_rights() -> None:
    rights = objects("rbac.yaml")
    (account,) = [o["metadata"] for o in rights if o["kind"] == "ServiceAccount"]
    pod = deployment()["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    assert deployment()["metadata"]["namespace"] == account["namespace"]
    bindings = [o for o in rights if o["kind"].endswith("Binding")]
    assert len(bindings) == 2
    for binding in bindings:
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])


def test_the_lease_it_takes_is_the_one_it_may_write() -> None:
    (role,) = [o for o in objects("rbac.yaml") if o["kind"] == "Role"]
    params = controller.main.make_context("controllers", []).params
    assert role["metadata"]["namespace"] == deployment()["metadata"]["namespace"]
    assert role["metadata"]["namespace"] == params["lease_namespace"]


def test_two_replicas_with_restricted_rights() -> None:
    spec = deployment()["spec"]
    assert spec["replicas"] == 2
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    pod = spec["template"]["spec"]["securityContext"]
    assert pod["runAsNonRoot"]
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    inner = container()["securityContext"]
    assert inner == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"USER {pod['runAsUser']}:{pod['runAsGroup']}" in DOCKERFILE


def test_the_entry_point_is_the_controller() -> None:
    (line,) = re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.M)
    assert yaml.safe_load(line)[1:] == ["-m", "controllers"]
    assert isinstance(controller.main, click.Command)


def test_the_image_copies_what_there_is() -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+) ", DOCKERFILE, re.M)
    assert copied == [".ci/requirements.lock", "taugrid_ray", "controllers"]
    let_in = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for path in copied:
        assert (ROOT / path).exists()
        assert f"!{path}" in let_in


IMAGE_PYTHON = {"python_version": "3.12", "python_full_version": "3.12.0"}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _needed(requirements: list[str], extra: str = "") -> set[str]:
    """Names of all that these bring along, in the image's Python."""
    found: set[str] = set()
    waiting = [(text, extra) for text in requirements]
    while waiting:
        text, of_extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate(
            {**IMAGE_PYTHON, "extra": of_extra}
        ):
            continue
        name = _plain(requirement.name)
        if name not in found:
            found.add(name)
            waiting += [(inner, "") for inner in distribution(name).requires or ()]
    return found


def test_the_image_has_the_packages_that_the_controller_needs() -> None:
    (text,) = re.findall(r'^ARG PACKAGES="([^"]+)"', DOCKERFILE, re.M)
    named = shlex.split(text.replace("\\\n", ""))
    assert named == sorted(named)
    needed = _needed(distribution("taugrid-ray").requires or [], extra="controllers")
    assert set(named) == needed


@pytest.mark.parametrize("image", re.findall(r"^FROM (\S+)", DOCKERFILE, re.M))
def test_the_image_is_python_of_the_version_that_was_resolved(image: str) -> None:
    assert image == f"python:{IMAGE_PYTHON['python_version']}-slim"
