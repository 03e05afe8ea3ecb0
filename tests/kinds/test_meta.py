"""Times and owners as the API server writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taugrid_ray.kinds import meta


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0.0, id="the epoch"),
        pytest.param("2026-12-01T04:05:06Z", 1796097906.0, id="metav1.Time"),
        pytest.param("2026-12-01T04:05:06.250000Z", 1796097906.25, id="metav1.MicroTime"),
        pytest.param("2026-12-01T04:05:06.5Z", 1796097906.5, id="one decimal"),
        pytest.param("2026-12-01T04:05:06.123456789Z", 1796097906.123456789, id="nanoseconds"),
        pytest.param("2026-12-01T05:05:06+01:00", 1796097906.0, id="east of Greenwich"),
        pytest.param("2026-11-30T23:35:06-04:30", 1796097906.0, id="west of Greenwich"),
        pytest.param("1969-12-31T23:59:59Z", -1.0, id="before the epoch"),
    ],
)
def test_reads_rfc3339(text: str, want: float) -> None:
    assert meta.parse_time(text) == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-12-01",
        "2026-12-01T04:05:06",
        "2026-12-01 04:05:06Z",
        "2026-13-01T04:05:06Z",
        "2026-02-30T04:05:06Z",
        "2026-12-01T24:00:00Z",
        "2026-12-31T23:59:60Z",
        "2026-12-01T04:05:06+24:00",
        "2026-12-01T04:05:06Z\n",
        "٢٠٢٦-12-01T04:05:06Z",
    ],
)
def test_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an? |impossible"):
        meta.parse_time(text)
    assert meta.time_at({"t": text}, "t") is None


@given(st.integers(min_value=-62_135_596_800, max_value=253_402_300_799))
def test_whole_seconds_survive_a_round_trip(at_s: int) -> None:
    assert meta.parse_time(meta.format_time(at_s)) == at_s


@given(st.integers(min_value=0, max_value=4_000_000_000_000_000))
def test_microseconds_survive_a_round_trip(micros: int) -> None:
    text = meta.format_micro_time(micros / 1_000_000)
    assert round(meta.parse_time(text) * 1_000_000) == micros
    assert len(text) == len("1970-01-01T00:00:00.000000Z")


def test_reads_metadata() -> None:
    got = meta.parse_meta(
        {
            "metadata": {
                "name": "train",
                "namespace": "team-a",
                "uid": "u1",
                "resourceVersion": "7",
                "generation": 3,
                "labels": {"a": "b"},
                "creationTimestamp": "1970-01-01T00:00:10Z",
                "deletionTimestamp": "1970-01-01T00:00:40Z",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u2"},
                    {
                        "apiVersion": "ray.io/v1",
                        "kind": "RayJob",
                        "name": "r",
                        "uid": "u3",
                        "controller": True,
                    },
                ],
            }
        }
    )
    assert (got.key, got.uid, got.generation, got.created_at_s) == ("team-a/train", "u1", 3, 10.0)
    assert got.is_terminating
    owner = got.controller_owner
    assert owner is not None
    assert (owner.group, owner.kind, owner.name) == ("ray.io", "RayJob", "r")
    assert got.owned_by("u2")
    assert not got.owned_by("")


@pytest.mark.parametrize(
    "obj",
    [None, 7, [], {}, {"metadata": None}, {"metadata": {"labels": [1], "ownerReferences": {}}}],
)
def test_odd_objects_read_as_empty(obj: object) -> None:
    got = meta.parse_meta(obj)
    assert (got.name, dict(got.labels), got.owners, got.created_at_s) == ("", {}, (), None)
    assert not got.is_terminating
