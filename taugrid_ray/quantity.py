"""Kubernetes quantities as exact numbers: `500m`, `1.5Gi`, `1e9`.

An amount is a `Fraction`: sums over thousands of pods, products and comparisons are exact, and a
whole number compares equal to the int. No float is ever made.

Read as Kubernetes reads: what is finer than a billionth is rounded up (away from zero) to one. Two
things differ on purpose. Numbers without digits (`.`, `+`, `k`), which Kubernetes' reader lets pass
as zero, are refused, as its published grammar and the schemas of custom resources do. And nothing
is capped at 2^63: `16Ei` stays what it says, the caller decides what to do about it.

Why not `kubernetes.utils.quantity.parse_quantity`: it works in Decimals of 28 digits, so it rounds
large numbers silently; it takes `1K`, `inf`, ` 1 `, `1_000` and non-Latin digits; it keeps `0.1n`;
and importing the client costs more than the whole library may.

Source: kubernetes/apimachinery, pkg/api/resource/quantity.go and suffix.go, v0.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

Resources = Mapping[str, Fraction]
"""Resource name to amount. A missing name is none of it."""

NANO = Fraction(1, 10**9)
INT64_MAX = 2**63 - 1
UNLIMITED = 2**53
"""Quotas above this are how people write "no limit"."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT_MAX = 100
_LENGTH_MAX = 128
_QUANTITY = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))"
)
_ALMOST = re.compile(r"([+-]?[0-9]+(?:[.,][0-9]+)*)\s*([A-Za-z]*)")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_BYTES = ("memory", "ephemeral-storage", "storage")


def parse(value: str | int | float) -> Fraction:
    """The exact amount.

    A float comes from a YAML or JSON number such as `cpu: 1.5`; it is read as the decimal text that
    was written, not as the binary fraction next to it.

    Raises ValueError: one sentence with the value and the nearest right form.
    """
    if isinstance(value, bool):
        raise ValueError(
            f"{str(value).lower()} is not a quantity; write a number such as 1 or 500m"
        )
    if isinstance(value, int):
        return Fraction(value)
    text = repr(value) if isinstance(value, float) else value
    found = _QUANTITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if found is None:
        raise ValueError(f"{_shown(text)} is not a quantity; {_nearest(text)}")
    sign, digits, exponent, suffix = found.groups()
    amount = Fraction(digits) if digits[-1] != "." else Fraction(digits[:-1])
    if exponent is not None:
        if abs(int(exponent)) > _EXPONENT_MAX:
            raise ValueError(f"{_shown(text)} is out of any range; write a number such as 1 or 2Gi")
        amount *= Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        amount *= 1 << _BINARY[suffix]
    else:
        amount *= Fraction(10) ** _DECIMAL[suffix]
    amount = round_up(amount, NANO)
    return -amount if sign == "-" else amount


def round_up(amount: Fraction, unit: Fraction | int) -> Fraction:
    """The next multiple of `unit`, away from zero: whoever asks for a little gets a little."""
    steps = -(-abs(amount) // unit)
    return (steps * unit) * (1 if amount >= 0 else -1) + Fraction(0)


def canonical(amount: Fraction) -> str:
    """As Kubernetes writes a decimal quantity: whole, with the largest suffix that is exact."""
    return _largest(amount, [(s, Fraction(10) ** e) for s, e in _DECIMAL.items()])


def canonical_binary(amount: Fraction) -> str:
    """As Kubernetes writes a binary one: `1.5Gi` is `1536Mi`. Below one unit it is decimal."""
    if amount.denominator != 1:
        return canonical(amount)
    units = [("", Fraction(1)), *((s, Fraction(1 << e)) for s, e in _BINARY.items())]
    return _largest(amount, units)


def _largest(amount: Fraction, units: list[tuple[str, Fraction]]) -> str:
    amount = round_up(amount, NANO)
    if amount == 0:
        return "0"
    fits = [(u, s) for s, u in units if (amount / u).denominator == 1]
    unit, suffix = max(fits)
    return f"{(amount / unit).numerator}{suffix}"


def is_bytes(resource: str) -> bool:
    """Is this resource counted in bytes, so that Ki, Mi, Gi read best?"""
    return resource in _BYTES or resource.startswith("hugepages-") or resource.endswith(".memory")


def human(resource: str, amount: Fraction) -> str:
    """For people: `24 CPU`, `96Gi memory`, `8 nvidia.com/gpu`.

    Exact wherever four digits or one suffix can say it, else rounded to two decimals.
    """
    if is_bytes(resource):
        return f"{human_bytes(amount)} {resource}"
    unit = "CPU" if resource == "cpu" else resource
    return f"{_plain(amount)} {unit}"


def human_quota(resource: str, amount: Fraction) -> str:
    """Like `human`; what is too large to be meant as a number is "unlimited"."""
    if amount > UNLIMITED:
        return f"unlimited {'CPU' if resource == 'cpu' else resource}"
    return human(resource, amount)


def human_bytes(amount: Fraction) -> str:
    """`96Gi`, `1.5Gi`, `200G`; rounded to two decimals where nothing short is exact."""
    exact = min(canonical_binary(amount), canonical(amount), key=len)
    if amount.denominator != 1 or abs(amount) < 1024:
        return exact
    suffix, shift = max(
        ((s, e) for s, e in _BINARY.items() if abs(amount) >= 1 << e), key=lambda pair: pair[1]
    )
    hundredths = round(amount * 100 / (1 << shift))
    rounded = f"{_decimals(Fraction(hundredths, 100))}{suffix}"
    is_exact = Fraction(hundredths, 100) * (1 << shift) == amount
    return rounded if len(rounded) < len(exact) and (is_exact or len(exact) > 6) else exact


def _plain(amount: Fraction) -> str:
    return _decimals(amount) if (amount * 1000).denominator == 1 else canonical(amount)


def _decimals(amount: Fraction) -> str:
    """At most three decimals, no trailing zeros; the caller made sure that it is exact."""
    thousandths = abs(amount) * 1000
    whole, rest = divmod(int(thousandths), 1000)
    tail = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{'-' if amount < 0 else ''}{whole}{tail}"


def total(parts: Iterable[Resources]) -> dict[str, Fraction]:
    """The sum per resource."""
    summed: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, Fraction(0)) + amount
    return summed


def scaled(resources: Resources, times: int) -> dict[str, Fraction]:
    return {name: amount * times for name, amount in resources.items()}


def largest(first: Resources, second: Resources) -> dict[str, Fraction]:
    """The larger amount of each resource."""
    names = [*first, *(name for name in second if name not in first)]
    zero = Fraction(0)
    return {
        n: max(first.get(n, second.get(n, zero)), second.get(n, first.get(n, zero))) for n in names
    }


def keep_first(first: Resources, second: Resources) -> dict[str, Fraction]:
    """`first`, and from `second` what `first` does not name."""
    return {**second, **first}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _nearest(text: str) -> str:
    """What the writer may have meant."""
    found = _ALMOST.fullmatch(text.strip())
    if found is None or len(text) > _LENGTH_MAX:
        return "write a number with an optional suffix, such as 1, 500m, 1.5 or 2Gi"
    number, word = found.groups()
    if "," in number:
        grouped = _THOUSANDS.fullmatch(number)
        number = number.replace(",", "") if grouped else number.replace(",", ".")
    if number.count(".") > 1:
        return "write a number with one decimal point, such as 1.5"
    forms = [number + suffix for suffix in _meant(word)]
    if not forms:
        return f"write {number} or {number} with one of k M G T (decimal) or Ki Mi Gi Ti (binary)"
    return f"write {' or '.join(forms)}"


def _meant(word: str) -> tuple[str, ...]:
    if word in _DECIMAL or word in _BINARY:
        return (word,)
    low = word.lower()
    if low in ("b", "byte", "bytes", "core", "cores", "cpu", "cpus", "vcpu", "gpu", "gpus"):
        return ("",)
    if low in ("millicore", "millicores", "millicpu", "mcpu"):
        return ("m",)
    letter = low[:1]
    binary = f"{letter.upper()}i"
    if binary not in _BINARY:
        return ()
    if low[1:] in ("i", "ib"):
        return (binary,)
    if low[1:] in ("", "b"):
        return ("k" if letter == "k" else letter.upper(), binary)
    return ()
