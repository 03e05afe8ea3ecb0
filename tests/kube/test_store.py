"""The store: reads our own writes, and late events do not undo them."""

from __future__ import annotations

import pytest

from taugrid_ray.kinds.resource import POD, Obj
from taugrid_ray.kube.delta import Delta, Key, Listed
from taugrid_ray.kube.store import Store

KEY = Key("ns", "a")


def parse(obj: Obj) -> str | None:
    return obj.get("value")


def obj(version: int, value: str | None, uid: str = "u1", name: str = "a") -> Obj:
    meta = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "value": value}


def seen(version: int, value: str | None, uid: str = "u1", name: str = "a") -> Delta[str]:
    return Delta(POD, Key("ns", name), uid, None, value, version)


def listed(version: int, *names: str) -> Listed:
    return Listed(POD, frozenset(Key("ns", name) for name in names), version)


@pytest.fixture
def store() -> Store[str]:
    return Store(POD, parse, indexes={"letter": lambda value: list(value)})


def test_our_own_write_is_read_at_once(store: Store[str]) -> None:
    """Case 97: a late watch does not make us create twice."""
    store.apply(listed(5))
    (change,) = store.accept(obj(7, "x"))
    assert (change.old, change.new) == (None, "x")
    assert store.get(KEY) == "x"


def test_an_older_event_loses(store: Store[str]) -> None:
    store.apply(seen(5, "old"))
    store.accept(obj(9, "ours"))
    assert store.apply(seen(7, "between")) == ()
    assert store.apply(seen(9, "ours")) == ()
    assert store.get(KEY) == "ours"
    (change,) = store.apply(seen(10, "later"))
    assert (change.old, change.new) == ("ours", "later")


def test_versions_are_numbers(store: Store[str]) -> None:
    store.accept(obj(999, "x"))
    assert store.apply(seen(1000, "y")) != ()
    assert store.accept(obj(999, "x")) == ()
    assert store.get(KEY) == "y"


def test_a_forgotten_one_stays_away_until_it_is_gone(store: Store[str]) -> None:
    store.apply(seen(5, "x"))
    (change,) = store.forget("u1")
    assert (change.old, change.new) == ("x", None)
    assert store.apply(seen(8, "dying")) == ()
    assert store.accept(obj(8, "dying")) == ()
    assert KEY not in store
    store.apply(seen(9, None))
    store.apply(seen(11, "new", uid="u2"))
    assert store.get(KEY) == "new"


def test_the_end_of_an_earlier_life_does_not_hurt_the_next(store: Store[str]) -> None:
    store.apply(seen(5, "x"))
    store.forget("u1")
    store.accept(obj(9, "y", uid="u2"))
    assert store.apply(seen(8, None, uid="u1")) == ()
    assert store.apply(seen(12, None, uid="u1")) == ()
    assert store.get(KEY) == "y"
    assert store.apply(seen(12, None, uid="u2")) != ()


def test_forgetting_what_is_not_here(store: Store[str]) -> None:
    assert store.forget("nobody") == ()


def test_a_list_drops_what_came_and_went_unseen(store: Store[str]) -> None:
    store.apply(listed(5))
    store.accept(obj(7, "x"))
    (change,) = store.apply(listed(20))
    assert (change.old, change.new) == ("x", None)


def test_a_list_that_is_older_than_our_write_drops_nothing(store: Store[str]) -> None:
    store.accept(obj(7, "x"))
    assert store.apply(listed(6)) == ()
    assert store.get(KEY) == "x"


def test_a_list_that_began_before_our_delete_does_not_bring_it_back(store: Store[str]) -> None:
    store.apply(seen(5, "x"))
    store.forget("u1")
    store.apply(seen(6, "x"))
    store.apply(listed(6, "a"))
    assert KEY not in store
    store.apply(listed(9))
    assert store.apply(seen(12, "y", uid="u2")) != ()


def test_a_value_of_no_interest_leaves(store: Store[str]) -> None:
    store.apply(seen(5, "x"))
    (change,) = store.accept(obj(6, None))
    assert (change.old, change.new) == ("x", None)
    assert len(store) == 0


def test_an_equal_value_is_no_change(store: Store[str]) -> None:
    store.apply(seen(5, "x"))
    assert store.accept(obj(6, "x")) == ()
    assert store.apply(seen(5, "older")) == ()
    assert store.get(KEY) == "x"


def test_indexes_follow(store: Store[str]) -> None:
    store.apply(seen(1, "ab"))
    store.apply(seen(2, "bc", name="b"))
    assert store.by("letter", "b") == ("ab", "bc")
    store.apply(seen(3, "cd"))
    assert store.by("letter", "b") == ("bc",)
    assert store.by("letter", "a") == ()
    assert sorted(store.words("letter")) == ["b", "c", "d"]
    store.apply(seen(4, None))
    assert store.by("letter", "c") == ("bc",)
    assert list(store.values()) == ["bc"]
    assert store.keys() == (Key("ns", "b"),)


def test_synced_after_the_first_list(store: Store[str]) -> None:
    store.apply(seen(1, "x"))
    assert not store.synced
    store.apply(listed(1, "a"))
    assert store.synced
    assert len(store) == 1
