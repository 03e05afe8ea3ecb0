"""What the API server would refuse in a pod, said before the pod's owner exists.

A Job's template is checked when the Job is created; the templates inside a RayCluster are not, so
there every one of these turns into workers that never appear.

Source: kubernetes 1.36 pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from taugrid_ray.gang.model import Note, NoteCode
from taugrid_ray.gang.syntax import is_qualified, is_subdomain, label_problems
from taugrid_ray.kinds.strict import Field, FieldError, shown
from taugrid_ray.quantity import canonical, human_bytes

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_TINY = 16 * 2**20


def template_problems(template: Field) -> Iterator[FieldError]:
    template["metadata"]["annotations"].string_map()
    yield from label_problems(template["metadata"]["labels"])
    spec = template["spec"]
    account = spec["serviceAccountName"]
    if account.text() and not is_subdomain(account.text()):
        yield account.wrong(
            f"{shown(account.text())} is not the name of a service account: lower-case letters, "
            "digits, dashes and dots; fill in what is left open, or remove it"
        )
    yield from label_problems(spec["nodeSelector"])
    yield from _pod_problems(spec)


def _pod_problems(spec: Field) -> Iterator[FieldError]:
    if not spec["containers"].items():
        yield spec["containers"].wrong("is empty: write at least one container")
    for item in (*spec["initContainers"].items(), *spec["containers"].items()):
        yield from resource_problems(item["resources"])
    yield from _below_limit(spec["resources"])


def unquoted_fractions(template: Field) -> Iterator[FieldError]:
    """In a custom resource an amount is a whole number or text; a Job may have any number."""
    spec = template["spec"]
    for item in (*spec["initContainers"].items(), *spec["containers"].items()):
        yield from unquoted_in_resources(item["resources"])
    yield from unquoted_in_resources(spec["resources"])
    yield from _unquoted(spec["overhead"])


def unquoted_in_resources(resources: Field) -> Iterator[FieldError]:
    for side in ("requests", "limits"):
        yield from _unquoted(resources[side])


def _unquoted(amounts: Field) -> Iterator[FieldError]:
    for _, entry in amounts.entries():
        if isinstance(entry.value, float) and not entry.value.is_integer():
            yield entry.wrong(f"{shown(entry.value)} must be text: write {shown(str(entry.value))}")


def resource_problems(resources: Field) -> Iterator[FieldError]:
    for side in (resources["requests"], resources["limits"]):
        for name, entry in side.entries():
            yield from _name_problems(name, entry)
            amount = entry.quantity()
            if _is_extended(name) and amount.denominator != 1:
                yield entry.wrong(
                    f"{shown(entry.value)} is not whole, and {name} is only given out whole; "
                    f"write {shown(str(-(-amount // 1)))}"
                )
    limits = resources["limits"].quantities()
    for name, entry in resources["requests"].entries():
        if not _is_exact(name):
            continue
        if name not in limits:
            yield entry.wrong(
                f"{name} has no limit, and needs one equal to its request; add "
                f"{resources['limits'].path}.{name}: {shown(entry.value)}"
            )
        elif limits[name] != entry.quantity():
            yield entry.wrong(
                f"{shown(entry.value)} differs from the limit {canonical(limits[name])}; "
                f"{name} needs the same number in both"
            )
    yield from _below_limit(resources)


def _below_limit(resources: Field) -> Iterator[FieldError]:
    limits = resources["limits"].quantities()
    for name, entry in resources["requests"].entries():
        if _is_exact(name) or name not in limits:
            continue
        if entry.quantity() > limits[name]:
            limit = shown(resources["limits"][name].value)
            yield entry.wrong(
                f"{shown(entry.value)} is above the limit {limit}; raise the limit or lower this"
            )


def _name_problems(name: str, entry: Field) -> Iterator[FieldError]:
    if name in _STANDARD or name.startswith("hugepages-"):
        return
    if "/" not in name:
        yield entry.wrong(
            f"{shown(name)} is not a resource: write cpu, memory, ephemeral-storage, or a full "
            "name with its vendor, such as nvidia.com/gpu"
        )
    elif not is_qualified(name):
        yield entry.wrong(f"{shown(name)} is not a resource name such as nvidia.com/gpu")


def _is_extended(name: str) -> bool:
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")


def _is_exact(name: str) -> bool:
    """Cannot be overcommitted: request and limit are one number."""
    return _is_extended(name) or name.startswith("hugepages-")


def pod_notes(spec: Field) -> Iterator[Note]:
    """What the sums do not hold, and numbers that are legal and probably not meant."""
    claims = spec["resourceClaims"]
    if claims.items():
        yield Note(
            NoteCode.CLAIMS_NOT_COUNTED,
            "its pods claim devices (resourceClaims), which are not in these sums",
            claims.path,
        )
    for item in (*spec["initContainers"].items(), *spec["containers"].items()):
        for side in (item["resources"]["requests"], item["resources"]["limits"]):
            memory = side["memory"]
            if memory.exists:
                yield from _memory_notes(memory, memory.quantity())


def _memory_notes(memory: Field, amount: Fraction) -> Iterator[Note]:
    if amount.denominator != 1:
        yield Note(
            NoteCode.FRACTION_OF_BYTE,
            f"{shown(memory.value)} of memory is a fraction of one byte; write Mi or Gi",
            memory.path,
        )
    elif 0 < amount < _TINY:
        yield Note(
            NoteCode.TINY_MEMORY,
            f"{shown(memory.value)} of memory is {human_bytes(amount)} bytes"
            if amount < 1024
            else f"{shown(memory.value)} of memory is only {human_bytes(amount)}",
            memory.path,
        )
