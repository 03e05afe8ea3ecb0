"""Keys that wait: each once, not before its time, never twice at work, none ever lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.workqueue import WorkQueue


def test_in_order_of_time() -> None:
    queue = WorkQueue()
    queue.add("b", 2.0)
    queue.add("a", 1.0)
    assert queue.take(0.5) is None
    assert (queue.take(3.0), queue.take(3.0), queue.take(3.0)) == ("a", "b", None)


def test_the_earlier_time_counts() -> None:
    queue = WorkQueue()
    queue.add("a", 9.0)
    queue.add("a", 1.0)
    queue.add("a", 5.0)
    assert queue.next_due_s() == 1.0
    assert queue.take(1.0) == "a"
    queue.done("a")
    assert queue.take(99.0) is None


def test_a_key_at_work_is_not_given_out_but_served_afterwards() -> None:
    queue = WorkQueue()
    queue.add("a", 0.0)
    assert queue.take(0.0) == "a"
    queue.add("a", 0.0)
    assert queue.take(1.0) is None
    assert queue.next_due_s() is None
    queue.done("a")
    assert queue.next_due_s() == 0.0
    assert queue.take(1.0) == "a"


def test_pauses_double_to_a_limit() -> None:
    queue = WorkQueue(base_s=1.0, max_s=5.0)
    assert [queue.failed("a") for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    queue.worked("a")
    assert queue.failed("a") == 1.0


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, 5)),
        st.tuples(st.just("take"), st.just(""), st.integers(0, 2)),
        st.tuples(st.just("done"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("look"), st.just(""), st.just(0)),
    ),
    max_size=60,
)


@given(MOVES)
@settings(max_examples=300, deadline=None)
def test_against_a_plain_model(moves: list[tuple[str, str, int]]) -> None:
    """The model: a due time for each waiting key, and a set of keys at work."""
    queue, due, busy, now_s = WorkQueue(), {}, set(), 0
    for move, key, number in moves:
        if move == "add":
            queue.add(key, now_s + number)
            due[key] = min(due.get(key, now_s + number), now_s + number)
        elif move == "done" and key in busy:
            queue.done(key)
            busy.discard(key)
        elif move == "look":
            waiting = [at for k, at in due.items() if k not in busy]
            assert queue.next_due_s() == min(waiting, default=None)
        elif move == "take":
            now_s += number
            ready = {k: at for k, at in due.items() if at <= now_s and k not in busy}
            found = queue.take(now_s)
            assert (found is None) == (not ready)
            if found is not None:
                assert ready[found] == min(ready.values())
                del due[found]
                busy.add(found)
        assert (len(queue), queue.busy) == (len(due), len(busy))
