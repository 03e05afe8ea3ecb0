"""Readers of JSON: those that never raise, and those that say what is wrong with a value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taugrid_ray.kinds import fields
from taugrid_ray.kinds.job import parse_job
from taugrid_ray.kinds.node import parse_node
from taugrid_ray.kinds.pod import parse_pod
from taugrid_ray.kinds.provisioning_request import parse_provisioning_request
from taugrid_ray.kinds.queues import (
    parse_admission_check,
    parse_cluster_queue,
    parse_resource_flavor,
)
from taugrid_ray.kinds.raycluster import parse_raycluster
from taugrid_ray.kinds.rayjob import parse_rayjob
from taugrid_ray.kinds.strict import INT32_MAX, INT64_MAX, Field, FieldError, shown
from taugrid_ray.kinds.workload import parse_workload

OBJ: dict[str, Any] = {
    "text": "a",
    "number": 3,
    "yes": True,
    "map": {"a": "b", "c": 1, 2: "d"},
    "list": ["a", 1, {"x": 1}, None],
    "nothing": None,
}


def test_reads_what_is_there() -> None:
    assert fields.text(OBJ, "text") == "a"
    assert fields.integer(OBJ, "number") == 3
    assert fields.is_true(OBJ, "yes")
    assert fields.mapping(OBJ, "map") == OBJ["map"]
    assert fields.string_map(OBJ, "map") == {"a": "b"}
    assert fields.objects(OBJ, "list") == ({"x": 1},)
    assert fields.strings(OBJ, "list") == ("a",)


@pytest.mark.parametrize("path", [("nothing",), ("absent",), ("text", "below"), ("list", "0")])
def test_what_is_not_there_is_empty(path: tuple[str, ...]) -> None:
    assert fields.text(OBJ, *path) == ""
    assert fields.integer(OBJ, *path) is None
    assert not fields.is_true(OBJ, *path)
    assert (fields.mapping(OBJ, *path), fields.string_map(OBJ, *path)) == ({}, {})
    assert (fields.objects(OBJ, *path), fields.strings(OBJ, *path)) == ((), ())


def test_a_flag_is_no_number_and_a_word_is_no_flag() -> None:
    assert fields.integer({"n": True}, "n") is None
    assert fields.integer({"n": 1.5}, "n") is None
    assert fields.integer({"n": float("inf")}, "n") is None
    assert fields.integer({"n": 2.0}, "n") == 2
    assert not fields.is_true({"f": "true"}, "f")
    assert not fields.is_true({"f": 1}, "f")


PARSERS: list[Callable[[Any], Any]] = [
    parse_admission_check,
    parse_cluster_queue,
    parse_job,
    parse_node,
    parse_pod,
    parse_provisioning_request,
    parse_raycluster,
    parse_rayjob,
    parse_resource_flavor,
    parse_workload,
]
_words = st.sampled_from(
    [
        "metadata",
        "labels",
        "ownerReferences",
        "spec",
        "status",
        "conditions",
        "podSets",
        "template",
        "admission",
        "podSetAssignments",
        "admissionChecks",
        "workerGroupSpecs",
        "replicas",
        "count",
        "type",
        "state",
    ]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_words, below, max_size=5),
    max_leaves=25,
)


@pytest.mark.parametrize("parse", PARSERS, ids=lambda p: p.__name__)
def test_no_object_is_too_odd_to_be_read(parse: Callable[[Any], Any]) -> None:
    @settings(deadline=None)
    @given(_json)
    def reads(obj: Any) -> None:
        assert parse(obj) == parse(obj)

    reads()


class TestField:
    def test_knows_where_it_stands(self) -> None:
        root = Field({"spec": {"list": [{"a/b": 1}]}})
        assert root["spec"]["list"].items()[0]["a/b"].path == "spec.list[0]['a/b']"
        assert root["spec"]["gone"]["deeper"].path == "spec.gone.deeper"
        assert root.wrong("is odd").args == ("the document: is odd",)

    def test_null_is_not_written(self) -> None:
        field = Field(None, "f")
        assert not field.exists
        assert (field.text(), field.flag(), field.integer()) == ("", False, None)
        assert (field.mapping(), field.items(), field.string_map()) == ({}, (), {})

    @pytest.mark.parametrize(
        ("read", "value", "says"),
        [
            (Field.text, 1, "f: must be text, not a number: write '1' in quotes"),
            (Field.text, True, "f: must be text, not true or false: write 'true' in quotes"),
            (Field.flag, "true", "f: must be true or false, not 'true'"),
            (Field.flag, 1, "f: must be true or false, not 1"),
            (Field.integer, "1", "f: must be a whole number, not '1'"),
            (Field.integer, True, "f: must be a whole number, not true"),
            (Field.integer, 1.5, "f: must be a whole number, not 1.5"),
            (Field.integer, float("inf"), "f: must be a whole number, not Infinity"),
            (Field.integer, INT32_MAX + 1, "f: 2147483648 is beyond 2147483647"),
            (Field.integer, -INT32_MAX - 2, "f: -2147483649 is beyond 2147483647"),
            (Field.mapping, [], "f: must be a mapping, not a list"),
            (Field.mapping, {1: 2}, "f: has the key 1, which must be text"),
            (Field.items, {}, "f: must be a list, not a mapping"),
            (Field.string_map, {"a": 1}, "f.a: must be text, not a number"),
            (Field.quantity, {}, "f: must be a quantity such as 2 or '500m', not a mapping"),
            (Field.quantity, "-1", "f: '-1' must not be negative"),
            (Field.quantity, "1Gb", "f: '1Gb' is not a quantity; write 1G or 1Gi"),
            (Field.quantities, {"cpu": "x"}, "f.cpu: 'x' is not a quantity"),
        ],
    )
    def test_says_what_is_wrong(self, read: Callable[[Field], Any], value: Any, says: str) -> None:
        with pytest.raises(FieldError) as wrong:
            read(Field(value, "f"))
        assert str(wrong.value).startswith(says)

    def test_64_bits_where_the_api_has_them(self) -> None:
        assert Field(INT64_MAX).integer(most=INT64_MAX) == INT64_MAX
        with pytest.raises(FieldError, match="is beyond"):
            Field(INT64_MAX + 1).integer(most=INT64_MAX)

    def test_numbers_may_be_written_in_several_ways(self) -> None:
        assert Field(2.0).integer() == 2
        assert Field(0.5).quantity() == Fraction(1, 2)
        assert Field({"cpu": 1, "memory": "1Gi"}).quantities() == {"cpu": 1, "memory": 2**30}


@given(st.text() | st.integers() | st.lists(st.text(max_size=9), max_size=9) | st.binary())
def test_a_value_is_shown_on_one_short_line(value: Any) -> None:
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 65
