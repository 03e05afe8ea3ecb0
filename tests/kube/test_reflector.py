"""The reflector in simulated time: what it tells the store, and that nothing ends it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from taugrid_ray.errors import Forbidden, Gone, NotFound, ServerFault, Throttled, Unreachable
from taugrid_ray.kinds.resource import CONFIG_MAP, RAY_JOB, Obj, Resource
from taugrid_ray.kube.delta import Delta, Key, Listed
from taugrid_ray.kube.reflector import BACKOFF_MAX_S, Reflector, Step
from taugrid_ray.kube.store import Store
from tests.fake_kube import FakeKube, ManualClock


def parse(obj: Obj) -> str | None:
    """The value under test is the text in `data.v`; "" is of no interest, none is an error."""
    return obj["data"]["v"] or None


@dataclass
class Bench:
    """A reflector over FakeKube, a store behind it, and all that was said."""

    clock: ManualClock = field(default_factory=ManualClock)
    selector: str = ""
    optional: bool = False
    kind: Resource = CONFIG_MAP

    def __post_init__(self) -> None:
        self.kube = FakeKube(self.clock)
        self.said: list[Delta[str] | Listed] = []
        self.bad: list[Key] = []
        self.store: Store[str] = Store(self.kind, parse, indexes={"value": lambda value: [value]})
        self.reflector = Reflector(
            self.kube,
            self.kind,
            parse,
            self._hear,
            clock=self.clock,
            labels=self.selector,
            page_size=2,
            optional=self.optional,
            report=lambda kind, key, error: self.bad.append(key),
            rand=lambda: 1.0,
        )

    def _hear(self, change: Delta[str] | Listed) -> None:
        self.said.append(change)
        self.store.apply(change)

    def put(self, name: str, value: str, **labels: str) -> Obj:
        obj = {"metadata": {"name": name, "labels": labels}, "data": {"v": value}}
        return self.kube.create(CONFIG_MAP, obj, "ns")

    def set(self, name: str, value: str) -> Obj:
        return self.kube.patch(CONFIG_MAP, name, {"data": {"v": value}}, "ns")

    def remove(self, name: str) -> None:
        self.kube.delete(CONFIG_MAP, name, "ns")

    def settle(self) -> list[tuple[str, str | None, str | None]]:
        """Step until the server has nothing new; answers what was said on the way."""
        del self.said[:]
        for _ in range(1000):
            step = self.reflector.step()
            self.clock.advance(step.wait_s)
            if step.quiet:
                return self.news()
        raise AssertionError("it never comes to rest")

    def news(self) -> list[tuple[str, str | None, str | None]]:
        return [(s.key.name, s.old, s.new) for s in self.said if isinstance(s, Delta)]

    def held(self) -> dict[str, str]:
        return {key.name: self.store.get(key) or "" for key in self.store.keys()}  # noqa: SIM118


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_list_of_several_pages_then_changes(bench: Bench) -> None:
    for name in "abcde":
        bench.put(name, "1")
    assert not bench.reflector.synced
    assert bench.settle() == [(name, None, "1") for name in "abcde"]
    assert bench.reflector.synced
    assert bench.store.synced
    assert isinstance(bench.said[-1], Listed)
    bench.set("a", "2")
    bench.remove("b")
    bench.put("f", "1")
    assert bench.settle() == [("a", "1", "2"), ("b", "1", None), ("f", None, "1")]
    assert bench.held() == {"a": "2", "c": "1", "d": "1", "e": "1", "f": "1"}
    assert bench.kube.calls["list", "ConfigMap"] == 3
    assert bench.kube.calls["watch", "ConfigMap"] == 1


def test_what_does_not_matter_is_swallowed(bench: Bench) -> None:
    bench.put("a", "1")
    bench.settle()
    bench.kube.patch(CONFIG_MAP, "a", {"data": {"heartbeat": "1"}}, "ns")
    assert bench.settle() == []


def test_of_no_interest_is_absent(bench: Bench) -> None:
    bench.put("a", "")
    bench.put("b", "1")
    assert bench.settle() == [("b", None, "1")]
    bench.set("a", "1")
    bench.set("b", "")
    assert bench.settle() == [("a", None, "1"), ("b", "1", None)]


def test_one_bad_object_does_not_stop_the_others(bench: Bench) -> None:
    bench.kube.create(CONFIG_MAP, {"metadata": {"name": "odd"}}, "ns")
    bench.put("a", "1")
    assert bench.settle() == [("a", None, "1")]
    assert bench.bad == [Key("ns", "odd")]
    bench.kube.patch(CONFIG_MAP, "a", {"data": None}, "ns")
    bench.put("b", "1")
    assert bench.settle() == [("a", "1", None), ("b", None, "1")]
    assert bench.bad == [Key("ns", "odd"), Key("ns", "a")]
    bench.set("a", "3")
    assert bench.settle() == [("a", None, "3")]


def test_only_what_is_selected() -> None:
    bench = Bench(selector="ours=yes")
    bench.put("a", "1", ours="yes")
    bench.put("b", "1")
    assert bench.settle() == [("a", None, "1")]
    bench.kube.patch(CONFIG_MAP, "b", {"metadata": {"labels": {"ours": "yes"}}}, "ns")
    bench.kube.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"ours": None}}}, "ns")
    assert bench.settle() == [("b", None, "1"), ("a", "1", None)]


def test_a_dropped_connection_goes_on_from_the_last_version(bench: Bench) -> None:
    bench.put("a", "1")
    bench.settle()
    bench.kube.break_watches(Unreachable("reset by peer"))
    bench.set("a", "2")
    assert bench.settle() == [("a", "1", "2")]
    assert bench.kube.calls["list", "ConfigMap"] == 1


def test_bookmarks_carry_a_quiet_watch_over_a_compaction(bench: Bench) -> None:
    """Case 89: the version of a bookmark is used, and nothing else of it is parsed."""
    bench.put("a", "1")
    bench.settle()
    for number in range(5):
        bench.kube.create(RAY_JOB, _ray_job(f"j{number}"), "ns")
    assert bench.settle() == []
    assert bench.bad == []
    bench.kube.break_watches(Unreachable("reset"))
    bench.kube.compact()
    bench.set("a", "2")
    assert bench.settle() == [("a", "1", "2")]
    assert bench.kube.calls["list", "ConfigMap"] == 1


@pytest.mark.parametrize("how", ["as HTTP status", "inside the stream"])
def test_after_410_the_gap_is_made_up_for(bench: Bench, how: str) -> None:
    """Case 87: what was added, changed and deleted in the gap is told, and nothing else."""
    for name in "abc":
        bench.put(name, "1")
    bench.settle()
    bench.kube.break_watches(
        Unreachable("reset") if how == "as HTTP status" else Gone("too old", reason="Expired")
    )
    bench.remove("a")
    bench.set("b", "2")
    bench.put("d", "1")
    bench.kube.compact()
    assert bench.settle() == [("a", "1", None), ("b", "1", "2"), ("d", None, "1")]
    assert bench.held() == {"b": "2", "c": "1", "d": "1"}


def test_made_anew_in_the_gap_is_an_end_and_a_beginning(bench: Bench) -> None:
    bench.put("a", "1")
    bench.settle()
    uid = bench.said[0].uid if isinstance(bench.said[0], Delta) else ""
    bench.kube.break_watches(Gone("too old"))
    bench.remove("a")
    bench.put("a", "1")
    assert bench.settle() == [("a", "1", None), ("a", None, "1")]
    ended, begun = bench.said[:2]
    assert isinstance(ended, Delta)
    assert isinstance(begun, Delta)
    assert ended.uid == uid != begun.uid


def test_versions_that_fall_back_void_all(bench: Bench) -> None:
    """The server's store was restored from a backup: old versions are new again."""
    bench.put("a", "1")
    bench.put("b", "1")
    bench.settle()
    backup = FakeKube(bench.clock)
    backup.create(CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"v": "0"}}, "ns")
    bench.kube.break_watches(Gone("too old"))
    bench.reflector._api = backup
    assert bench.settle() == [("a", "1", None), ("b", "1", None), ("a", None, "0")]
    assert bench.held() == {"a": "0"}


def test_a_list_that_fails_after_410_is_tried_until_it_works(bench: Bench) -> None:
    """Case 88: 410, then 500, 429 and a time-out on the list: no watch dies for good."""
    bench.put("a", "1")
    bench.settle()
    bench.kube.break_watches(Gone("too old"))
    bench.set("a", "2")
    for error in (
        ServerFault("etcd is away", status=500),
        Throttled("slow down", retry_after_s=9),
        Unreachable("timed out"),
    ):
        bench.kube.fail("list", CONFIG_MAP, error)
    begun_s = bench.clock.monotonic_s()
    assert bench.settle() == [("a", "1", "2")]
    assert bench.reflector.trouble is None
    assert bench.clock.monotonic_s() - begun_s > 9


def test_each_failure_in_a_row_waits_longer_up_to_a_limit(bench: Bench) -> None:
    bench.kube.fail("list", CONFIG_MAP, Forbidden("no"), times=12)
    waits = [bench.reflector.step().wait_s for _ in range(12)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == BACKOFF_MAX_S
    assert isinstance(bench.reflector.trouble, Forbidden)
    assert not bench.reflector.synced
    assert bench.reflector.heard_at_s is None
    bench.settle()
    assert bench.reflector.synced
    assert bench.reflector.heard_at_s == bench.clock.monotonic_s()


def test_the_server_says_how_long_to_wait(bench: Bench) -> None:
    """Case 92: Retry-After is honoured, with jitter on top."""
    bench.kube.fail("list", CONFIG_MAP, Throttled("slow down", retry_after_s=3))
    assert 3 < bench.reflector.step().wait_s < 5


def test_a_list_that_works_and_a_watch_that_never_does_is_no_hot_loop(bench: Bench) -> None:
    bench.put("a", "1")
    bench.kube.fail("watch", CONFIG_MAP, Gone("always"), times=10_000)
    steps = [bench.reflector.step() for _ in range(40)]
    waited_s = sum(step.wait_s for step in steps)
    assert waited_s > 10 * BACKOFF_MAX_S
    assert bench.reflector.synced


def test_a_watch_that_ends_at_once_in_silence_is_a_failure(bench: Bench) -> None:
    bench.put("a", "1")
    bench.reflector.step()
    bench.kube.watch = lambda *_, **__: iter(())  # type: ignore[method-assign, assignment]
    waits = [bench.reflector.step().wait_s for _ in range(4)]
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_a_watch_that_ends_in_its_time_is_opened_again_at_once(bench: Bench) -> None:
    bench.settle()
    opened = bench.kube.calls["watch", "ConfigMap"]
    bench.clock.advance(3600)
    assert bench.reflector.step() == Step()
    bench.put("a", "1")
    assert bench.settle() == [("a", None, "1")]
    assert bench.kube.calls["watch", "ConfigMap"] == opened + 1


def test_pages_that_expire_begin_again(bench: Bench) -> None:
    for name in "abcde":
        bench.put(name, "1")
    pages = 0

    def forget(call: object) -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            bench.kube.compact()

    bench.kube.on_call = forget
    assert len(bench.settle()) == 5
    assert bench.kube.calls["list", "ConfigMap"] == 2 + 3


def test_a_kind_that_is_not_installed_may_be_an_empty_list() -> None:
    bench = Bench(optional=True)
    bench.put("a", "1")
    bench.settle()
    bench.kube.break_watches(Gone("its definition was deleted"))
    bench.kube.fail("list", CONFIG_MAP, NotFound("no such kind"))
    assert bench.reflector.step().wait_s == 0
    assert bench.reflector.step().wait_s == BACKOFF_MAX_S
    assert bench.store.synced
    assert bench.held() == {}
    bench.settle()
    assert bench.held() == {"a": "1"}


def test_a_kind_that_is_needed_is_waited_for(bench: Bench) -> None:
    bench.kube.fail("list", CONFIG_MAP, NotFound("no such kind"))
    assert bench.reflector.step().wait_s > 0
    assert not bench.reflector.synced
    bench.settle()
    assert bench.reflector.synced


def _ray_job(name: str) -> Obj:
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}}
