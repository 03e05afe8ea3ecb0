"""Public trouble reports, by number: what this project does about each, and what shows it.

`shown_by` names tests (`tests/...::test_x`) and scenarios (`python -m e2e list`); `why_not` says
what of a case is not tested here and why. A number that the log of cases does not use says so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from e2e.scenarios.registry import scenarios
from tests.cases.folder import absent, folder

ROOT = Path(__file__).parents[2]
NUMBERS = (*range(1, 20), *range(42, 54), *range(87, 98))


@dataclass(frozen=True)
class Case:
    what: str
    """What we do, in our own words."""
    shown_by: tuple[str, ...] = ()
    why_not: str = ""


UNUSED = Case("", why_not="the log of cases has no such number")

INPUTS = "tests/cases/test_inputs.py"
REQUESTS = "tests/cases/test_provisioning.py"
AROUND = "tests/cases/test_around.py"
SUMS = f"{INPUTS}::test_sums_worked_out_by_hand"
GROUPS, PODS = "tests/gang/test_groups.py", "tests/gang/test_pods.py"
RULES, VIEW = "tests/gang/test_rules.py", "tests/gang/test_ray_view.py"
COLD, ADMITTED = "tests/controllers/test_cold.py", "tests/controllers/test_admitted.py"
DECIDE, FAILURE = "tests/controllers/test_decide.py", "tests/controllers/test_failure.py"
REFLECTOR, STREAMS = "tests/kube/test_reflector.py", "tests/kube/test_streams.py"
WIRE, STORE = "tests/kube/test_wire.py", "tests/kube/test_store.py"
CREDENTIALS = "tests/kube/test_credentials.py"

CASES: dict[int, Case] = {
    1: Case(
        "a count is replicas x numOfHosts everywhere, in whole numbers without a limit of their "
        "own; fewer than one host, or more pods than a pod set can count, are refused",
        (f"{GROUPS}::test_pods_of_a_group", f"{GROUPS}::test_refuses_a_group", SUMS),
    ),
    2: Case(
        "a slice of a job that runs is answered by asking for what is new alone, and a newer wish "
        "counts what is booked",
        (
            f"{REQUESTS}::test_2_growth_of_what_runs_is_not_asked_as_if_nothing_ran",
            "tests/growth/test_decide.py::test_asks",
            "tests/growth/test_decide.py::test_a_larger_wish_counts_what_is_booked",
            "growth-delta-only",
            SUMS,
        ),
    ),
    3: Case(
        "the booking's name goes on pods through Kueue's updates, never into an elastic template; "
        "a pod whose booking is over loses it; one written by hand is refused",
        (
            f"{REQUESTS}::test_3_pods_and_not_templates_name_the_booking",
            f"{REQUESTS}::test_3_a_template_that_names_a_booking_by_hand_is_refused",
            f"{REQUESTS}::test_3_a_replaced_pod_may_be_helped_again",
            f"{RULES}::TestNotes::test_a_consume_annotation_by_hand",
            "stale-consume-annotation",
        ),
    ),
    4: Case(
        "the submitter is a pod, a container of the head or nothing, by mode; the autoscaler is a "
        "container of the head; each is a line of its own",
        (
            "tests/gang/test_submitter.py::test_modes",
            "tests/gang/test_submitter.py::test_each_hidden_container_is_a_line_of_its_own",
            "tests/gang/test_submitter.py::test_the_autoscaler_has_its_own_numbers",
            SUMS,
        ),
    ),
    5: Case(
        "KubeRay's rules are checked before anything exists; a job that turns ValidationFailed "
        "after all has ended, and its request goes",
        (
            f"{RULES}::test_refuses_a_rayjob",
            f"{RULES}::test_a_raycluster",
            f"{REQUESTS}::test_5_a_job_that_turns_invalid_after_all_keeps_no_request",
            SUMS,
        ),
        why_not="the quota of such a job is Kueue's to take back; we neither finish nor delete "
        "Workloads",
    ),
    6: UNUSED,
    7: Case(
        "the clean-up Job of fault tolerance is in what Kueue counts for the head, and not in what "
        "the head's pod asks for",
        (
            f"{PODS}::test_the_redis_cleanup_is_counted_by_kueue_and_asked_for_by_nobody",
            f"{PODS}::test_kueue_takes_the_redis_cleanup_for_the_request_of_a_head_with_limits_only",
            SUMS,
        ),
        why_not="the end of a deletion is KubeRay's, and the quota that it holds is Kueue's",
    ),
    8: Case(
        "we hold no quota and give none back; a request is deleted with its reservation, whether "
        "or not old pods are still ending",
        (f"{REQUESTS}::test_19_nothing_stays_booked_for_a_gang_that_no_longer_waits",),
        why_not="when quota is free is decided in Kueue alone",
    ),
    9: Case(
        "BookingExpired is read by its reason and by what runs: used and run-out bookings of a "
        "running job only lose their objects, before that they are asked again",
        (
            f"{REQUESTS}::test_9_a_booking_that_ended_hurts_nothing_that_runs",
            f"{REQUESTS}::test_9_a_booking_that_ended_before_anything_ran_is_asked_again",
            f"{REQUESTS}::test_9_every_state_that_a_request_was_seen_in",
            "booking-expires-while-waiting",
        ),
    ),
    10: Case(
        "a booking that runs out while another check holds the job ends the attempt; one that runs "
        "out while a sibling is waited for is asked again in the same attempt",
        (
            f"{REQUESTS}::test_10_a_booking_that_ran_out_while_another_check_held_the_job",
            f"{COLD}::test_an_expired_request_goes_once_the_next_is_there",
            "booking-expires-while-waiting",
        ),
    ),
    11: Case(
        "capacity taken back before the start fails the attempt in the provider's words; a job "
        "that runs is not evicted and gets no second request",
        (f"{REQUESTS}::test_11_capacity_that_the_provider_took_back",),
    ),
    12: Case(
        "the job's part of a name is cut, the hash is not; objects are found by the Workload's uid "
        "in a label, and a hundred passes create them once",
        (
            f"{REQUESTS}::test_12_long_names_are_cut_before_what_makes_them_unique",
            f"{COLD}::test_the_same_moment_asks_by_the_same_name",
            SUMS,
        ),
    ),
    13: Case(
        "Retry is never written; parking frees the quota and our own annotation says when the next "
        "attempt begins, whoever restarts meanwhile",
        (
            f"{REQUESTS}::test_13_no_state_of_a_gang_is_without_a_next_step_or_a_deadline",
            f"{DECIDE}::test_wakes",
            "backoff-holds-no-quota",
        ),
    ),
    14: Case(
        "each attempt is a new request with a number, and begins by itself after the pause",
        (
            f"{REQUESTS}::test_14_the_next_attempt_comes_by_itself_and_is_another_request",
            f"{FAILURE}::test_attempts_are_counted_over_all_steps_for_people",
            "job-timeout",
            "gives-up-after-last-attempt",
        ),
    ),
    15: Case(
        "managedResources leaves pod sets without accelerators out of the request; a webhook's "
        "refusal is told in its own words",
        (
            f"{REQUESTS}::test_15_a_provider_that_takes_one_pod_set_can_be_asked_for_the_"
            "accelerators_alone",
            f"{REQUESTS}::test_15_a_providers_refusal_reaches_the_user_in_its_own_words",
            f"{COLD}::test_what_is_refused_for_ever_runs_out_of_time",
        ),
        why_not="which class takes how many pod sets is not known before the provider says it",
    ),
    16: Case(
        "templates are created before their request, and whatever stands without its other half "
        "is completed or swept",
        (
            f"{REQUESTS}::test_16_templates_come_first_and_none_stays_without_its_request",
            f"{REQUESTS}::test_16_a_missing_request_of_a_waiting_gang_is_made_again_and_its_old_"
            "templates_go",
            "controller-killed-between-any-two-calls",
            "owner-deleted-while-controller-down",
        ),
    ),
    17: Case(
        "an object of our name with other content is left alone and another name is taken; a "
        "request whose template is missing fails at once and is asked anew",
        (
            f"{REQUESTS}::test_17_an_object_of_somebody_else_is_left_alone_and_another_name_is_taken",
            f"{REQUESTS}::test_17_our_own_object_of_an_earlier_pass_is_taken_as_made",
            "missing-pod-template",
        ),
    ),
    18: UNUSED,
    19: Case(
        "however a gang stops waiting, its request and templates go in the same pass; the attempts "
        "go on where they were",
        (
            f"{REQUESTS}::test_19_nothing_stays_booked_for_a_gang_that_no_longer_waits",
            f"{REQUESTS}::test_19_the_attempts_go_on_after_an_eviction",
            "preempted-while-provisioning",
            "job-cancel",
            "rayjob-cancel",
            "user-deactivates",
        ),
    ),
    42: Case(
        "limits become requests before a LimitRange's defaults do, as in the API server; where "
        "Kueue does it the other way round, both sums and a note are shown; bookings ask for the "
        "limits",
        (
            f"{PODS}::TestLimitRange::test_limits_come_before_its_defaults_in_the_pod_and_after_"
            "in_kueue",
            f"{PODS}::TestLimitRange::test_it_fills_in_what_nobody_wrote",
            f"{PODS}::test_limits_become_requests",
            f"{AROUND}::test_42_limits_are_asked_for_where_no_request_is_written",
            SUMS,
        ),
        why_not="bookings do not know LimitRanges: a container for which nothing is written is "
        "booked as asking for nothing",
    ),
    43: Case(
        "a worker group that the Ray autoscaler cannot size is told, with the first Ray that can",
        (f"{RULES}::TestNotes::test_an_autoscaler_that_cannot_size_its_workers",),
    ),
    44: Case(
        "a pod asks for the most that ever runs at once: each init container beside the sidecars "
        "before it, all sidecars beside the containers, overhead on top",
        (
            f"{PODS}::test_init_containers_and_sidecars",
            f"{PODS}::test_a_pod_asks_for_the_most_that_ever_runs_at_once",
            f"{PODS}::TestOverhead::test_comes_on_top_of_the_most",
            SUMS,
        ),
    ),
    45: UNUSED,
    46: Case(
        "quota and capacity follow the pod; what Ray is told stands beside it, with a note where "
        "the two differ",
        (
            f"{GROUPS}::test_what_is_asked_for_follows_the_pod_and_not_what_ray_is_told",
            f"{RULES}::test_resources_of_a_group_stand_in_one_place",
            f"{VIEW}::test_start_parameters_win",
            SUMS,
        ),
    ),
    47: Case(
        "custom resources are read as the shell would hand them on; a spelling that the shell "
        "spoils is told, one that makes no sense is refused with the right one",
        (f"{VIEW}::test_custom_resources", f"{VIEW}::test_refuses_custom_resources"),
        why_not="nothing writes custom resources for a user yet",
    ),
    48: UNUSED,
    49: Case(
        "a head that asks for no accelerator but tolerates the workers' taint is told",
        (f"{RULES}::TestNotes::test_a_head_that_may_take_a_workers_node",),
        why_not="profiles, which place the head, are not part of this version",
    ),
    50: Case(
        "no list of names decides what is asked for: every resource is carried as written; only "
        "what Ray will believe goes by KubeRay's rule",
        (f"{VIEW}::test_from_the_container", SUMS),
    ),
    51: UNUSED,
    52: Case(
        "flavors that put different values on one label are refused, always in the same words, "
        "with both names and nothing asked for",
        (
            f"{AROUND}::test_52_two_flavors_that_want_one_label_are_refused_each_time_in_the_"
            "same_words",
        ),
    ),
    53: Case(
        "amounts are exact fractions, and what is too large to be meant as a number is called "
        "unlimited",
        (
            f"{AROUND}::test_53_quotas_of_any_size_survive_reading_and_writing",
            f"{AROUND}::test_53_what_means_no_limit_is_exact_in_sums_and_said_in_words",
            "tests/test_quantity.py::test_a_quota_that_means_no_limit_says_so",
            f"{GROUPS}::test_more_than_64_bits_can_count",
        ),
    ),
    87: UNUSED,
    88: Case(
        "a watch that ends is opened again; a list that fails after 410 is tried until it works",
        (
            f"{REFLECTOR}::test_a_list_that_fails_after_410_is_tried_until_it_works",
            f"{STREAMS}::test_the_list_fails_after_410",
            f"{REFLECTOR}::test_each_failure_in_a_row_waits_longer_up_to_a_limit",
        ),
    ),
    89: Case(
        "of a bookmark only the version is read, and it carries a quiet watch over a compaction",
        (
            f"{STREAMS}::test_bookmarks",
            f"{REFLECTOR}::test_bookmarks_carry_a_quiet_watch_over_a_compaction",
            f"{WIRE}::test_bookmarks_keep_a_quiet_watch_alive",
        ),
    ),
    90: UNUSED,
    91: Case(
        "a watch on which nothing comes, not even a bookmark, is given up after a time and opened "
        "anew from the last version",
        (
            f"{STREAMS}::test_a_socket_that_never_answers",
            f"{WIRE}::test_a_watch_that_falls_silent",
            f"{REFLECTOR}::test_a_dropped_connection_goes_on_from_the_last_version",
        ),
    ),
    92: Case(
        "a throttled call waits as the server says, in the header or in the body, and goes on",
        (
            f"{STREAMS}::test_throttled_before_the_stream",
            f"{WIRE}::test_ten_refusals_then_success",
            f"{WIRE}::test_how_long_to_wait_may_stand_in_the_body",
        ),
    ),
    93: UNUSED,
    94: Case(
        "a token is read again in time and at once after a 401; a lasting 401 is named as such",
        (
            f"{CREDENTIALS}::test_a_token_file_that_is_replaced",
            f"{CREDENTIALS}::test_a_token_that_is_replaced_under_a_watch",
            f"{CREDENTIALS}::test_a_lasting_401_is_named_and_not_hammered",
            f"{CREDENTIALS}::test_a_plug_in_is_asked_again_after_a_401",
        ),
    ),
    95: Case(
        "a leader that cannot renew stops before another may begin, knows on waking that its time "
        "is over, and hands over at once when it ends; names are the same for both",
        (
            f"{AROUND}::test_95_one_that_sleeps_past_its_lease_does_nothing_on_waking",
            f"{AROUND}::test_95_one_that_cannot_renew_stops_before_another_may_begin",
            f"{AROUND}::test_95_a_controller_that_ends_hands_over_at_once",
            f"{REQUESTS}::test_17_our_own_object_of_an_earlier_pass_is_taken_as_made",
        ),
    ),
    96: UNUSED,
    97: Case(
        "our own writes are seen before the watch brings them, and what is decided again from an "
        "old view bears the same names",
        (
            f"{AROUND}::test_97_deciding_again_from_an_old_view_makes_nothing_twice",
            f"{STORE}::test_our_own_write_is_read_at_once",
            f"{STORE}::test_a_list_that_is_older_than_our_write_drops_nothing",
        ),
    ),
}


def test_every_number_has_its_answer() -> None:
    assert tuple(CASES) == NUMBERS
    for number, case in CASES.items():
        assert case.shown_by or case.why_not, number
        assert case.what or case is UNUSED, number


@pytest.mark.parametrize("number", NUMBERS)
def test_what_shows_it_exists(number: int) -> None:
    for name in CASES[number].shown_by:
        if "::" in name:
            file, _, test = name.partition("::")
            assert test in _tests_of(file), name
        else:
            assert name in scenarios(), name


def test_the_numbers_are_those_of_the_log() -> None:
    """Where the log lies beside the manifests: what is unused here is unused there."""
    place = folder()
    log = place.parent / "cases.md" if place is not None else None
    if log is None or not log.is_file():
        pytest.skip(absent())
    in_log = {int(n) for n in re.findall(r"^\*\*(\d+)\. ", log.read_text(), re.MULTILINE)}
    assert {n for n in NUMBERS if CASES[n] is not UNUSED} == in_log.intersection(NUMBERS)


@cache
def _tests_of(file: str) -> frozenset[str]:
    """`test_x` and `TestY::test_x` of one file, without importing it."""
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(_named(tree))


def _named(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (
                f"{node.name}::{f.name}" for f in node.body if isinstance(f, ast.FunctionDef)
            )
