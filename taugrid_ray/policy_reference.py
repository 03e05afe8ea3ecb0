"""The reference page of CapacityPolicy, made from the pydantic model as the CRD is.

`python -m taugrid_ray.policy_reference` writes `docs/reference/capacity-policy.md` to standard
output (behind `make docs`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import CAPACITY_POLICY, Obj

_HEAD = f"""\
<!-- Generated from taugrid_ray/capacity_policy.py by `make docs`; do not edit. -->
# CapacityPolicy

`{CAPACITY_POLICY.api_version}`, cluster-scoped, short name `cpol`. An AdmissionCheck names one in
`spec.parameters`; it says how to ask for capacity, how long to wait, and what then.
[The admin's guide](../admin.md) has examples.

Times are whole seconds. A field that is left out has its default. `kubectl apply` refuses a field
that is not listed here and a value outside of its limits. What only several fields together can
show, such as `provision` above `maxProvision`, the controller says in the status.

| Field | Type | Default | Limits | Meaning |
|---|---|---|---|---|
"""
_TAIL = """
## Status

The controller writes one condition, `Ready`. It is `False` with reason `PolicyInvalid` where the
policy cannot be used; the message names field and value. The AdmissionChecks that name the policy
are then not Active, and their queues admit nothing until it is mended.

```console
$ kubectl get capacitypolicies
```
"""


def page() -> str:
    schema = CapacityPolicySpec.model_json_schema(by_alias=True, mode="validation")
    rows = _rows(schema, fields.mapping(schema, "$defs"), "spec")
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + _TAIL


def _rows(schema: Obj, models: Obj, path: str) -> Iterator[tuple[str, str, str, str, str]]:
    """One row per field, an object's own fields right below it."""
    for name, field in fields.mapping(schema, "properties").items():
        there = f"{path}.{name}"
        items = fields.mapping(field, "items")
        inner = _model(field, models) or _model(items, models)
        if items and inner:
            there += "[]"
        # A field's own description says more than that of the model it points at.
        text = str(field.get("description") or (inner or {}).get("description") or "")
        default = json.dumps(field["default"]) if "default" in field and not inner else ""
        yield (
            f"`{there}`",
            _type(field),
            f"`{default}`" if default else "",
            _limits(field),
            " ".join(text.split()).replace("|", r"\|"),
        )
        if inner:
            yield from _rows(inner, models, there)


def _model(field: Obj, models: Obj) -> Obj | None:
    ref = fields.text(field, "$ref")
    return fields.mapping(models, ref.rpartition("/")[2]) if ref else None


def _type(field: Obj) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return "object"
    kind = fields.text(field, "type")
    if kind == "array":
        return f"list of {_type(fields.mapping(field, 'items'))}s"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(fields.mapping(field, 'additionalProperties'))}s"
    return kind


def _limits(field: Obj) -> str:
    """The bounds of a number, or of how many a list or map may hold."""
    pairs = (
        ("minimum", "maximum", ""),
        ("minItems", "maxItems", " entries"),
        ("minProperties", "maxProperties", " entries"),
        ("minLength", "maxLength", " characters"),
    )
    for least, most, unit in pairs:
        if most in field:
            return f"{field.get(least, 0)} to {field[most]}{unit}"
    return ""


def main() -> None:
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
