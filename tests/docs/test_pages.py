"""Links lead somewhere, commands exist, YAML and JSON are what the code takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from e2e import build
from e2e.__main__ import main as e2e_main
from e2e.pools import settings as pools
from e2e.scenarios.manifests import RAY_VERSION
from e2e.scenarios.registry import scenarios
from taugrid_ray import names
from taugrid_ray.capacity_policy import parse_policy
from taugrid_ray.cli.main import main as taugrid_main
from taugrid_ray.jobs.submitting import prepare
from taugrid_ray.kinds import resource as kinds
from taugrid_ray.kinds.queues import (
    parse_admission_check,
    parse_cluster_queue,
    parse_resource_flavor,
)
from taugrid_ray.memory import Pause, format_memory, parse_memory
from tests.docs.pages import PAGES, ROOT, anchors, block, blocks, commands, links, text_of

IDS = [str(page.relative_to(ROOT)) for page in PAGES]
TARGETS = set(re.findall(r"(?m)^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target}: no such file"
        assert ROOT in file.parents, f"{target}: outside of the repository"
        if anchor:
            assert anchor in anchors(file), f"{target}: no such heading"


def wrong_in(words: list[str], root: click.Command) -> str:
    """What of a command line does not exist; "" where all of it does. An argument's value is
    not looked at."""
    command = root
    with click.Context(root) as context:
        for word in words:
            if word == "--":
                return ""
            if word.startswith("-") and word != "-":
                name = word.partition("=")[0]
                known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
                if name not in {*known, "-h", "--help"}:
                    return f"{command.name} has no option {name}"
            elif isinstance(command, click.Group):
                inner = command.get_command(context, word)
                if inner is None:
                    return f"{command.name or 'the program'} has no command {word}"
                command = inner
            elif command.context_settings.get("ignore_unknown_options"):
                return ""
    return ""


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_exist(page: Path) -> None:
    for place, words in commands(page):
        # `run job|ray` stands for two commands.
        several = [w.split("|") for w in words if re.fullmatch(r"[a-z]+(\|[a-z]+)+", w)]
        for choice in several[0] if several else [""]:
            line = [choice if w.split("|") in several else w for w in words]
            assert not _wrong(line), f"{place}: {_wrong(line)}"


def _wrong(line: list[str]) -> str:
    if line[0] == "taugrid":
        return wrong_in(line[1:], taugrid_main)
    if line[0] == "make":
        return ", ".join(f"no target {w}" for w in line[1:] if "=" not in w and w not in TARGETS)
    if line[:3] == ["python", "-m", "e2e"]:
        unknown = ""
        if line[3:4] == ["run"]:
            unknown = ", ".join(w for w in line[4:] if re.match(r"[a-z]", w) and w not in known())
        return wrong_in(line[3:], e2e_main) or (unknown and f"no scenario {unknown}")
    return ""


def known() -> set[str]:
    return set(scenarios())


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("taugrid run ray -f x.yaml --wait", ""),
        ("taugrid submit", "no command submit"),
        ("taugrid status x --what", "no option --what"),
        ("taugrid run spark", "no command spark"),
        ("make demo", ""),
        ("make coffee", "no target coffee"),
        ("python -m e2e up --nodes fake", ""),
        ("python -m e2e fly", "no command fly"),
        ("python -m e2e run no-such", "no scenario no-such"),
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str, wrong: str) -> None:
    found = _wrong(line.split())
    assert wrong in found
    assert bool(wrong) == bool(found)


def test_the_commands_of_the_pages_are_seen() -> None:
    """Enough of them: a change of the pages' form must not blind the tests above."""
    seen = [" ".join(words) for page in PAGES for _, words in commands(page)]
    for begins in ("taugrid run ray", "taugrid resume", "make demo", "python -m e2e up"):
        assert any(line.startswith(begins) for line in seen), begins
    assert len(seen) > 40


def test_two_commands_set_it_up() -> None:
    _, _, rest = text_of(ROOT / "README.md").partition("## Try it")
    first = rest.partition("```console\n")[2].partition("```")[0]
    assert first == "$ make demo\n$ make test\n"


def _documents() -> list[Any]:
    found = [
        pytest.param(document, id=f"{b.place} {document['kind']} {document['metadata']['name']}")
        for page in PAGES
        for b in blocks(page)
        if b.language == "yaml"
        for document in yaml.safe_load_all(b.text)
    ]
    assert found
    return found


@pytest.mark.parametrize("document", _documents())
def test_yaml_is_what_the_code_takes(document: Any) -> None:
    if document["kind"] == "CapacityPolicy":
        parse_policy(document)
    elif document["kind"] == "ConfigMap":
        assert pools.load(document["data"]["pools"]).pools
    elif document["kind"] == "Job":
        job = prepare(yaml.safe_dump(document), kinds.JOB, source="the page", queue="team-a")
        assert job.gang.pods == 3
    else:
        assert document["apiVersion"] == kinds.WORKLOAD.api_version
        assert document["kind"] in {
            "AdmissionCheck",
            "ClusterQueue",
            "LocalQueue",
            "ResourceFlavor",
        }


def _of_readme(kind: str) -> list[Any]:
    documents = yaml.safe_load_all(block("README.md", "five-objects").text)
    return [d for d in documents if d["kind"] == kind]


def test_the_five_objects_name_each_other() -> None:
    (policy,) = _of_readme("CapacityPolicy")
    (check,) = map(parse_admission_check, _of_readme("AdmissionCheck"))
    (queue,) = _of_readme("ClusterQueue")
    (door,) = _of_readme("LocalQueue")
    flavors = {
        f["metadata"]["name"]: parse_resource_flavor(f) for f in _of_readme("ResourceFlavor")
    }
    assert check.controller == names.CONTROLLER
    assert check.parameters_group == kinds.CAPACITY_POLICY.group
    assert check.parameters_kind == kinds.CAPACITY_POLICY.kind
    assert check.parameters_name == policy["metadata"]["name"]
    (on,) = parse_cluster_queue(queue).on_flavors.items()
    assert on == (check.meta.name, ("gpu",))
    (group,) = queue["spec"]["resourceGroups"]
    assert [f["name"] for f in group["flavors"]] == list(flavors)
    for flavor in group["flavors"]:
        # Kueue wants every covered resource of every flavor, in this order.
        assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
    assert door["spec"]["clusterQueue"] == queue["metadata"]["name"]
    # A flavor without a label of that key would take the pods of the others.
    keys = {key for flavor in flavors.values() for key in flavor.node_labels}
    assert all(set(flavor.node_labels) == keys for flavor in flavors.values())


def test_the_five_objects_fit_their_schemas() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    built = build.find_built()
    if built is None:
        pytest.skip("the local cluster's programs, with Kueue's schemas, are not built")
    own = (ROOT / "deploy" / "crds" / "capacitypolicies.yaml").read_text(encoding="utf-8")
    schemas = {
        (crd["spec"]["names"]["kind"], f"{crd['spec']['group']}/{version['name']}"): version
        for crd in (*built.crds(), yaml.safe_load(own))
        for version in crd["spec"]["versions"]
    }
    documents = list(yaml.safe_load_all(block("README.md", "five-objects").text))
    assert len({d["kind"] for d in documents}) == 5
    for document in documents:
        version = schemas[document["kind"], document["apiVersion"]]
        jsonschema.validate(document, closed(version["schema"]["openAPIV3Schema"]))


def closed(schema: Any) -> Any:
    """The schema with unknown fields refused, as kubectl does; quantities may be numbers."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {
        key: closed(value)
        for key, value in schema.items()
        # Formats are Kubernetes' own, and patterns are in Go's dialect.
        if not (key in ("format", "pattern") and isinstance(value, str))
    }
    properties = schema.get("properties")
    if properties and "type" in schema and set(properties) - {"apiVersion", "kind", "metadata"}:
        made.setdefault("additionalProperties", False)
    return made


def test_the_memory_is_as_it_is_written() -> None:
    text = block("docs/how-it-works.md", "memory").text.strip()
    memory = parse_memory(text)
    assert memory.pause is Pause.PARKED
    assert format_memory(memory) == text


def test_versions_are_those_that_are_built() -> None:
    shown = {"kubernetes": "Kubernetes", "kueue": "Kueue", "kuberay": "KubeRay"}
    for page in ("README.md", "docs/findings.md"):
        text = " ".join(text_of(ROOT / page).split())
        for key, name in shown.items():
            assert f"{name} {build.VERSIONS[key]}" in text, page
        assert f"Ray {RAY_VERSION}" in text, page


def test_the_demo_says_what_the_readme_shows() -> None:
    told = "".join(f.read_text(encoding="utf-8") for f in (ROOT / "e2e" / "demo").glob("*.py"))
    (excerpt,) = [b.text for b in blocks(ROOT / "README.md") if b.language == "text"]
    stages = re.findall(r"(?m)^ *[\d.]+ s  ([A-Z]{3}[A-Z ]+)\b", excerpt)
    assert len(stages) == 8
    for stage in stages:
        assert stage in told, stage
