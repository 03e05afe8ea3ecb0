"""Quantities: every form that Kubernetes reads, exactly, and a way out for those it does not."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray import quantity

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "want", "decimal", "binary"),
    [
        ("0", 0, "0", "0"),
        ("1", 1, "1", "1"),
        ("+1", 1, "1", "1"),
        ("-1", -1, "-1", "-1"),
        ("100m", Fraction(1, 10), "100m", "100m"),
        ("0.1", Fraction(1, 10), "100m", "100m"),
        (".5", Fraction(1, 2), "500m", "500m"),
        ("1.", 1, "1", "1"),
        ("1.5", Fraction(3, 2), "1500m", "1500m"),
        ("1u", Fraction(1, 10**6), "1u", "1u"),
        ("1n", Fraction(1, 10**9), "1n", "1n"),
        ("0.1n", Fraction(1, 10**9), "1n", "1n"),
        ("-0.1n", Fraction(-1, 10**9), "-1n", "-1n"),
        ("1.0000000001", Fraction(1_000_000_001, 10**9), "1000000001n", "1000000001n"),
        ("1k", 1000, "1k", "1000"),
        ("1Ki", 1024, "1024", "1Ki"),
        ("5G", 5 * 10**9, "5G", "5000000000"),
        ("5Gi", 5 * GIB, "5368709120", "5Gi"),
        ("1.5Gi", 3 * GIB // 2, "1610612736", "1536Mi"),
        ("0.5Ti", 512 * GIB, "549755813888", "512Gi"),
        ("1e9", 10**9, "1G", "1000000000"),
        ("1E9", 10**9, "1G", "1000000000"),
        ("1E", 10**18, "1E", "976562500000000Ki"),
        ("1e-3", Fraction(1, 1000), "1m", "1m"),
        ("12e+2", 1200, "1200", "1200"),
        ("128974848", 128974848, "128974848", "123Mi"),
        ("1000000000Gi", 10**9 * GIB, "1073741824G", "1000000000Gi"),
        ("8Ei", 2**63, "9223372036854775808", "8Ei"),
        (
            "10000000000000000000000000000001",
            10**31 + 1,
            "1" + "0" * 30 + "1",
            "1" + "0" * 30 + "1",
        ),
    ],
)
def test_reads_and_writes_exactly(
    text: str, want: Fraction | int, decimal: str, binary: str
) -> None:
    got = quantity.parse(text)
    assert got == want
    assert quantity.canonical(got) == decimal
    assert quantity.canonical_binary(got) == binary


@pytest.mark.parametrize(("value", "want"), [(8, 8), (1.5, Fraction(3, 2)), (0.1, Fraction(1, 10))])
def test_numbers_from_yaml_mean_their_text(value: int | float, want: Fraction) -> None:
    assert quantity.parse(value) == want


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1Gb", "write 1G or 1Gi"),
        ("512MB", "write 512M or 512Mi"),
        ("1GiB", "write 1Gi"),
        ("16gb", "write 16G or 16Gi"),
        ("16gi", "write 16Gi"),
        ("1K", "write 1k or 1Ki"),
        ("1 Gi", "write 1Gi"),
        (" 1", "write 1"),
        ("1\n", "write 1"),
        ("1,000", "write 1000"),
        ("1,5", "write 1.5"),
        ("2 cores", "write 2"),
        ("500 millicores", "write 500m"),
        ("1.2.3", "one decimal point"),
        ("8 apples", "k M G T (decimal) or Ki Mi Gi Ti (binary)"),
        ("", "such as 1, 500m, 1.5 or 2Gi"),
        (".", "such as 1"),
        ("k", "such as 1"),
        ("inf", "such as 1"),
        ("nan", "such as 1"),
        ("0x10", "such as 1"),
        ("1_000", "such as 1"),
        ("٣", "such as 1"),
        ("1e1.5", "such as 1"),
        ("1e", "write 1E or 1Ei"),
        ("1e999999999", "out of any range"),
        ("9" * 200, "such as 1"),
        ("{{ cpu }}", "such as 1"),
    ],
)
def test_refuses_with_the_nearest_right_form(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity|is out of any range") as refused:
        quantity.parse(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 160


@pytest.mark.parametrize("value", [True, False, float("inf"), float("nan")])
def test_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(value)


amounts = st.integers(min_value=-(10**30), max_value=10**30).map(lambda n: Fraction(n, 10**9))


@given(amounts)
def test_both_canonical_forms_read_back_as_the_same_amount(amount: Fraction) -> None:
    assert quantity.parse(quantity.canonical(amount)) == amount
    assert quantity.parse(quantity.canonical_binary(amount)) == amount


@given(amounts)
def test_canonical_has_no_shorter_exact_form(amount: Fraction) -> None:
    """The mantissa is whole, and the next larger suffix would make a fraction of it."""
    text = quantity.canonical(amount)
    digits = text.lstrip("-").rstrip("numkMGTPE")
    assert digits.isdigit()
    assert digits == "0" or text.endswith("E") or int(digits) % 1000 != 0


@given(
    st.integers(min_value=0, max_value=10**25),
    st.integers(min_value=0, max_value=10**9 - 1),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "e5", "E-3", "e+2"]),
    st.sampled_from(["", "+", "-"]),
)
def test_decimal_forms_are_what_arithmetic_says(
    whole: int, billionths: int, suffix: str, sign: str
) -> None:
    power = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    exponent = power[suffix] if suffix in power else int(suffix[1:])
    exact = (whole + Fraction(billionths, 10**9)) * Fraction(10) ** exponent
    got = quantity.parse(f"{sign}{whole}.{billionths:09d}{suffix}")
    assert 0 <= abs(got) - exact < Fraction(1, 10**9)
    assert (got < 0) == (sign == "-" and exact > 0)


@given(amounts, st.sampled_from([1, Fraction(1, 1000), Fraction(1, 10**9), 1024]))
def test_rounding_is_away_from_zero_to_the_next_unit(
    amount: Fraction, unit: Fraction | int
) -> None:
    got = quantity.round_up(amount, unit)
    assert (got / unit).denominator == 1
    assert abs(amount) <= abs(got) < abs(amount) + unit
    assert got == 0 or (got > 0) == (amount > 0)


@pytest.mark.parametrize(
    ("resource", "text", "want"),
    [
        ("cpu", "24", "24 CPU"),
        ("cpu", "1500m", "1.5 CPU"),
        ("cpu", "100m", "0.1 CPU"),
        ("cpu", "1u", "1u CPU"),
        ("memory", "96Gi", "96Gi memory"),
        ("memory", "1.5Gi", "1.5Gi memory"),
        ("memory", "200G", "200G memory"),
        ("memory", "8", "8 memory"),
        ("memory", "6073741824", "5.66Gi memory"),
        ("nvidia.com/gpu", "8", "8 nvidia.com/gpu"),
        ("hugepages-2Mi", "4Mi", "4Mi hugepages-2Mi"),
    ],
)
def test_for_people(resource: str, text: str, want: str) -> None:
    assert quantity.human(resource, quantity.parse(text)) == want


@given(amounts.filter(lambda a: a >= 0))
def test_rounded_text_is_never_far_off(amount: Fraction) -> None:
    shown = quantity.parse(quantity.human_bytes(amount))
    assert abs(shown - amount) <= amount / 100


def test_a_quota_that_means_no_limit_says_so() -> None:
    assert quantity.human_quota("memory", quantity.parse("1000000000Gi")) == "unlimited memory"
    assert quantity.human_quota("cpu", quantity.parse("9100T")) == "unlimited CPU"
    assert quantity.human_quota("cpu", quantity.parse("64")) == "64 CPU"


resources = st.dictionaries(st.sampled_from(["cpu", "memory", "x.y/gpu"]), amounts)


@given(st.lists(resources), st.randoms())
def test_a_sum_does_not_depend_on_the_order(
    parts: list[dict[str, Fraction]], random: object
) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert quantity.total(parts) == quantity.total(shuffled)


@given(resources, resources)
def test_largest_and_keep_first(one: dict[str, Fraction], two: dict[str, Fraction]) -> None:
    most = quantity.largest(one, two)
    assert most == quantity.largest(two, one)
    for name, amount in most.items():
        assert amount == max(r[name] for r in (one, two) if name in r)
    kept = quantity.keep_first(one, two)
    assert kept.keys() == most.keys()
    assert all(kept[name] == one.get(name, two.get(name)) for name in kept)
