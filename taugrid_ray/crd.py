"""The custom resource definitions, made from the pydantic models: a structural schema with
descriptions, limits and defaults.

`python -m taugrid_ray.crd` writes `deploy/crds/capacitypolicies.yaml` to standard output (behind
`make crds`).
"""

from __future__ import annotations

import sys

from taugrid_ray.capacity_policy import CapacityPolicySpec
from taugrid_ray.kinds.resource import CAPACITY_POLICY, Obj


def custom_resource_definition() -> Obj:
    """The CRD of CapacityPolicy, as applied to a cluster."""
    schema = CapacityPolicySpec.model_json_schema(by_alias=True, mode="validation")
    spec = _structural(schema, schema.get("$defs", {}))
    spec["description"] = (CapacityPolicySpec.__doc__ or "").strip()
    status = {
        "type": "object",
        "description": "What the controller found.",
        "properties": {
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                        "observedGeneration": {"type": "integer", "format": "int64"},
                        "lastTransitionTime": {"type": "string", "format": "date-time"},
                        "reason": {"type": "string"},
                        "message": {"type": "string"},
                    },
                },
            },
        },
    }
    columns = [
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        ("Class", "string", ".spec.steps[0].provisioningClassName"),
        ("Provision", "integer", ".spec.deadlines.provision"),
        ("GiveUp", "string", ".spec.onGiveUp"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ]
    group, plural = CAPACITY_POLICY.group, CAPACITY_POLICY.plural
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": CAPACITY_POLICY.kind,
                "listKind": "CapacityPolicyList",
                "plural": plural,
                "singular": "capacitypolicy",
                "shortNames": ["cpol"],
            },
            "versions": [
                {
                    "name": CAPACITY_POLICY.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": type_, "jsonPath": path}
                        for name, type_, path in columns
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": status,
                            },
                        }
                    },
                }
            ],
        },
    }


_KEPT = ("type", "description", "default", "enum", "minimum", "maximum", "pattern")
_RENAMED = {
    "minLength": "minLength",
    "maxLength": "maxLength",
    "minItems": "minItems",
    "maxItems": "maxItems",
    "maxProperties": "maxProperties",
}


def _structural(schema: Obj, definitions: Obj) -> Obj:
    """JSON schema as pydantic writes it -> the structural subset that a CRD takes."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        merged = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
        return _structural(merged, definitions)
    out: Obj = {k: schema[k] for k in (*_KEPT, *_RENAMED) if k in schema}
    if "properties" in schema:
        out["properties"] = {
            name: _structural(inner, definitions) for name, inner in schema["properties"].items()
        }
    if "items" in schema:
        out["items"] = _structural(schema["items"], definitions)
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural(schema["additionalProperties"], definitions)
    return out


def main() -> None:
    import yaml

    sys.stdout.write(
        "# Generated from taugrid_ray/capacity_policy.py by `make crds`; do not edit.\n"
    )
    yaml.safe_dump(custom_resource_definition(), sys.stdout, sort_keys=False, width=100)


if __name__ == "__main__":
    main()
