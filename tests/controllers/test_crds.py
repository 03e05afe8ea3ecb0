"""The generated manifests are what the models say now."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import yaml

from taugrid_ray import crd
from taugrid_ray.capacity_policy import CapacityPolicySpec

FILE = Path(__file__).parents[2] / "deploy" / "crds" / "capacitypolicies.yaml"


def test_the_crd_is_fresh() -> None:
    made = io.StringIO()
    with contextlib.redirect_stdout(made):
        crd.main()
    assert FILE.read_text(encoding="utf-8") == made.getvalue(), "run `make crds` and commit"


def test_defaults_of_the_crd_are_those_of_the_model() -> None:
    """The API server fills in what the model would: a policy means the same in file and cluster."""
    schema = yaml.safe_load(FILE.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]
    spec = schema["openAPIV3Schema"]["properties"]["spec"]
    defaults = CapacityPolicySpec().model_dump(by_alias=True, mode="json")
    for name, field in spec["properties"].items():
        if "default" in field:
            assert _within(field["default"], defaults[name]), name


def _within(some: Any, whole: Any) -> bool:
    if isinstance(some, dict):
        return all(_within(value, whole[key]) for key, value in some.items())
    return bool(some == whole)
