"""What the pages list is what there is: reasons, rights, metrics, fields."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from controllers import loop
from controllers.metrics import Metrics
from taugrid_ray import policy_reference
from taugrid_ray.reasons import Reason
from tests.docs.examples import NEVER_SAID, said
from tests.docs.page import FILE, filled
from tests.docs.pages import ROOT, table, text_of

SECTIONS = dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", text_of(FILE)))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_section(reason: Reason) -> None:
    section = SECTIONS[reason.value]
    assert section.count("**Means:** ") == 1
    assert section.count("**Do:** ") == 1
    if reason in NEVER_SAID:
        assert "```" not in section
        return
    (shown,) = re.findall(r"(?s)```text\n(.*?)```", section)
    assert said()[reason], "no example"
    assert shown.splitlines() == list(said()[reason]), "run `make docs` and commit"


def test_no_section_is_of_a_reason_that_is_gone() -> None:
    assert list(SECTIONS) == [reason.value for reason in Reason]


def test_filling_in_repeats_itself() -> None:
    page = text_of(FILE)
    assert filled(page, said()) == page
    emptied = re.sub(r"(?s)(```text\n).*?(```)", r"\1\2", page)
    assert filled(emptied, said()) == page


def test_a_bug_is_logged_in_the_words_shown() -> None:
    source = inspect.getsource(loop)
    for words in ("bug while deciding", "bug while performing"):
        assert words in source
        assert f"`{words}`" in SECTIONS[Reason.INTERNAL_ERROR.value]


def test_words_of_status_are_those_of_the_code() -> None:
    literals = {
        node.value
        for file in (ROOT / "taugrid_ray" / "jobs").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    shown = [row[0].strip("`") for row in table("docs/troubleshooting.md", "status-words")]
    assert len(shown) > 5
    assert set(shown) <= literals
    assert not set(shown) & {reason.value for reason in Reason}


def test_rights_are_those_of_the_manifest() -> None:
    listed: dict[tuple[str, str], set[str]] = {}
    for group, resource, verbs, why in table("docs/admin.md", "rights"):
        assert why
        key = ("" if group == "core" else group, resource)
        listed.setdefault(key, set()).update(verbs.split(", "))
    granted: dict[tuple[str, str], set[str]] = {}
    manifest = (ROOT / "deploy" / "rbac.yaml").read_text(encoding="utf-8")
    rules: list[Any] = [r for d in yaml.safe_load_all(manifest) for r in d.get("rules", ())]
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    assert listed == granted


def test_metrics_are_those_of_the_process() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    there = {
        f"{family.name}_total" if family.type == "counter" else family.name: family.type
        for family in registry.collect()
    }
    labels = {
        f"{metric._name}_total" if metric._type == "counter" else metric._name: metric._labelnames
        for metric in set(registry._collector_to_names)
    }
    rows = table("docs/admin.md", "metrics")
    assert {name.strip("`"): kind for name, kind, _, _ in rows} == there
    for name, _, shown, _ in rows:
        assert tuple(filter(None, shown.split(", "))) == labels[name.strip("`")]


def test_the_policy_page_is_fresh() -> None:
    file = ROOT / "docs" / "reference" / "capacity-policy.md"
    assert file.read_text(encoding="utf-8") == policy_reference.page(), "run `make docs`, commit"


def test_the_policy_page_lists_every_field() -> None:
    page = policy_reference.page()
    for path in (
        "spec.managedResources",
        "spec.steps[].parameters",
        "spec.deadlines.maxProvision",
        "spec.growth.cooldown.baseSeconds",
    ):
        assert f"| `{path}` |" in page
