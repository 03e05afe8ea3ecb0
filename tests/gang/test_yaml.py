"""Text that people hand in: several documents, YAML's traps, and texts that mean no good."""

from __future__ import annotations

import json

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import gangs_in, load_manifests
from tests.gang.objects import amounts, group, job, raycluster, rayjob

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: m, image: i, resources: {requests: {cpu: 1}}}]
"""


def refusal(text: str | bytes) -> str:
    with pytest.raises(ManifestError) as refused:
        gangs_in(text, name="f.yaml")
    assert refused.value.message.startswith("f.yaml")
    assert refused.value.message.isprintable()
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "gangs"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("# nothing\n", 0, id="a comment"),
        pytest.param("---\n---\n", 0, id="empty documents"),
        pytest.param(f"{JOB}---\n{JOB}", 2, id="two documents"),
        pytest.param(f"---\n# first\n---\n{JOB}---\n", 1, id="empty ones between"),
        pytest.param(f"%YAML 1.1\n---\n{JOB}", 1, id="a directive"),
        pytest.param("\ufeff" + JOB, 1, id="a byte order mark"),
        pytest.param(JOB.replace("\n", "\r\n"), 1, id="lines from Windows"),
        pytest.param(json.dumps(job()), 1, id="JSON"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [job(), job()]}),
            2,
            id="a List",
        ),
        pytest.param("# " + "x" * 2**20 + "\n" + JOB, 1, id="large and harmless"),
    ],
)
def test_reads(text: str, gangs: int) -> None:
    assert len(gangs_in(text).gangs) == gangs
    assert len(gangs_in(text.encode()).gangs) == gangs


def test_objects_of_other_kinds_stand_aside() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: n}\n"
    found = gangs_in(f"{config}---\n{JOB}")
    assert [d.subject for d in found.others] == ["configmap n/c"]
    assert [g.name for g in found.gangs] == ["j"]
    assert found.wrong == ()


def test_one_wrong_document_leaves_the_others() -> None:
    found = gangs_in(f"{JOB}---\n{JOB.replace('cpu: 1', 'cpu: one')}---\n{JOB}")
    assert [d.gang is not None for d in found.documents] == [True, False, True]
    assert "'one' is not a quantity" in found.wrong[0].message


def test_a_limit_range_of_the_same_file_counts_wherever_it_stands() -> None:
    ranges = (
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\n"
        "spec: {limits: [{type: Container, defaultRequest: {memory: 2Gi}}]}\n"
    )
    for text in (f"{ranges}---\n{JOB}", f"{JOB}---\n{ranges}"):
        assert gangs_in(text).gangs[0].total == amounts(cpu="1", memory="2Gi")


def test_a_limit_range_of_another_namespace_does_not_count() -> None:
    ranges = (
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r, namespace: other}\n"
        "spec: {limits: [{type: Container, defaultRequest: {memory: 2Gi}}]}\n"
    )
    assert gangs_in(f"{ranges}---\n{JOB}").gangs[0].total == amounts(cpu="1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("kind: Job\n\tmetadata: 1\n", "line 2: a tab stands where", id="a tab"),
        pytest.param(JOB + "kind: Job\n", "line 9: the key 'kind' stands twice", id="a key twice"),
        pytest.param(
            JOB.replace("{name: j}", "{name: j, name: k}"),
            "line 3: the key 'name' stands twice",
            id="a key twice further down",
        ),
        pytest.param('{"a": 1, "a": 2}', "the key 'a' stands twice", id="a key twice in JSON"),
        pytest.param('"\\e[31m": 1\n"\\e[31m": 2\n', r"\x1b[31m", id="an escape as a key"),
        pytest.param("a: 1\nb: \x00", "line 2: the character U+0000", id="a zero byte"),
        pytest.param("a: \x1b[31m", "line 1: the character U+001B", id="a terminal's escape"),
        pytest.param("a: \ud800", "line 1: the character U+D800", id="half a character"),
        pytest.param('a: "b', "line 1: found unexpected end of stream", id="an open quote"),
        pytest.param("a: &a [*a]\n", "refers to something that contains it", id="a circle"),
        pytest.param(
            "a: &a {<<: *a}", "refers to something that contains it", id="a merged circle"
        ),
        pytest.param("a: *b", "found undefined alias", id="an alias of nothing"),
        pytest.param("a: !!python/name:os.system x", "could not determine", id="a Python object"),
        pytest.param("a: !secret b", "could not determine a constructor", id="an unknown tag"),
        pytest.param("? [a]\n: 1\n", "line 1: a key must be plain text", id="a list as a key"),
        pytest.param("[" * 5000 + "]" * 5000, "nested too deeply", id="deep"),
        pytest.param("{a: " * 150 + "1" + "}" * 150, "more than 100 levels", id="rather deep"),
        pytest.param("# " + "x" * (5 * 2**20), "larger than 4 MiB", id="huge"),
        pytest.param("---\n".join(["a: 1\n"] * 2001), "more than 2000 documents", id="many"),
        pytest.param(f"a: [{'1,' * 100_001}]", "more than 100000 values", id="many values"),
        pytest.param("a: " + "1" * 101, "line 1: a number has more than 100 digits", id="digits"),
        pytest.param("- 1\n", "document 1: [1] is not an object", id="a list"),
        pytest.param("hello", "document 1: 'hello' is not an object", id="a word"),
        pytest.param("kind: Job", "apiVersion is missing", id="no apiVersion"),
        pytest.param(
            "apiVersion: v1\nkind: 1", "kind is missing or no text", id="a number as kind"
        ),
        pytest.param("apiVersion: v1\nkind: List\nitems: 3", "items must be a list", id="items"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]",
            "items[0] is a list inside a list",
            id="a List in a List",
        ),
        pytest.param(f"{JOB}---\n- 1", "document 2: [1] is not an object", id="the second one"),
    ],
)
def test_refuses_the_text(text: str, says: str) -> None:
    assert says in refusal(text)


def test_refuses_a_bomb_of_aliases_before_it_goes_off() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    assert "grows to more than 100000 values" in refusal("\n".join(lines))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(JOB.encode("utf-16"), "line 1: byte 0xff is not UTF-8", id="UTF-16"),
        pytest.param(b"a: 1\nb: caf\xe9", "line 2: byte 0xe9 is not UTF-8", id="Latin-1"),
        pytest.param(b"\x7fELF\x02\x01\x80", "line 1: byte 0x80 is not UTF-8", id="a program"),
    ],
)
def test_refuses_bytes_that_are_no_text(content: bytes, says: str) -> None:
    assert says in refusal(content)
    assert "save the file as UTF-8" in refusal(content)


def test_a_name_of_a_file_is_data() -> None:
    with pytest.raises(ManifestError) as refused:
        load_manifests("a: [", name="\x1b[31m.yaml")
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("1", "1"),
        ("1.5", "1.5"),
        ("1e0", "1"),
        ("1e3", "1000"),
        ("+1", "1"),
        ("0x10", "16"),
        ("010", "8"),
        ("0o10", "8"),
        ("0b11", "3"),
        ("09", "9"),
        ("1_000", "1000"),
        ("'1'", "1"),
        ("100m", "100m"),
    ],
)
def test_plain_numbers_mean_what_they_mean_to_kubectl(written: str, want: str) -> None:
    gang = gangs_in(JOB.replace("cpu: 1", f"cpu: {written}")).gangs[0]
    assert gang.total == amounts(cpu=want)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (".nan", "'nan' is not a quantity"),
        (".inf", "'inf' is not a quantity"),
        ("1e999", "is not a quantity"),
        ("1e300", "is out of any range"),
        ("0x_", "'0x_' is not a quantity"),
        ("yes", "true is not a quantity"),
        ("2026-12-01", "'2026-12-01' is not a quantity"),
        ("1:30", "'1:30' is not a quantity"),
        ("[1]", "must be a quantity such as 2 or '500m', not a list"),
        ("-1", "must not be negative"),
        ("1Gb", "write 1G or 1Gi"),
        ("'${CPUS}'", "is not a quantity"),
        ('"\\e[31m"', r"\x1b[31m"),
    ],
)
def test_refuses_a_number(written: str, says: str) -> None:
    wrong = gangs_in(JOB.replace("cpu: 1", f"cpu: {written}")).wrong[0]
    assert says in wrong.message
    assert wrong.message.isprintable()
    assert wrong.message.startswith(
        "job j: spec.template.spec.containers[0].resources.requests.cpu"
    )


@pytest.mark.parametrize("key", ["on", "1", "null", "1.5", "true"])
def test_refuses_a_key_that_is_no_text(key: str) -> None:
    wrong = gangs_in(JOB.replace("{cpu: 1}", f"{{{key}: 1}}")).wrong[0]
    assert "which must be text: put it in quotes" in wrong.message


@pytest.mark.parametrize(("written", "want"), [("1e9", "1000000000"), ("2.0", "2"), ("1e0", "1")])
def test_whole_numbers_are_sent_whole(written: str, want: str) -> None:
    """Custom resources refuse `1000000000.0`; kubectl never sends it."""
    obj = load_manifests(JOB.replace("cpu: 1", f"cpu: {written}"))[0]
    container = obj["spec"]["template"]["spec"]["containers"][0]
    assert json.dumps(container["resources"]["requests"]["cpu"]) == want


def test_merge_keys_may_be_overwritten() -> None:
    merged = JOB.replace("{cpu: 1}", "{<<: {cpu: 1, memory: 1Gi}, cpu: 2}")
    assert gangs_in(merged).gangs[0].total == amounts(cpu="2", memory="1Gi")


def test_what_is_merged_may_itself_be_merged() -> None:
    text = JOB.replace("{cpu: 1}", "{<<: &a {<<: {cpu: 1, memory: 1Gi}, cpu: 2}}")
    assert gangs_in(text).gangs[0].total == amounts(cpu="2", memory="1Gi")


def test_aliases_are_read() -> None:
    text = JOB.replace("{requests: {cpu: 1}}", "{requests: &r {cpu: 1}, limits: *r}")
    assert gangs_in(text).gangs[0].total == amounts(cpu="1")


@pytest.mark.parametrize(
    ("version", "kind"),
    [("ray.io/v1alpha1", "RayJob"), ("ray.io/v1alpha1", "RayCluster"), ("batch/v1beta1", "Job")],
)
def test_a_version_that_is_served_no_more(version: str, kind: str) -> None:
    objects = {"RayJob": rayjob(group()), "RayCluster": raycluster(group()), "Job": job()}
    found = gangs_in(json.dumps({**objects[kind], "apiVersion": version}))
    assert f"'{version}' is not served; write " in found.wrong[0].message


@pytest.mark.parametrize("kind", ["CronJob", "RayCronJob", "RayService", "Deployment", "Pod"])
def test_other_kinds_are_no_gangs(kind: str) -> None:
    found = gangs_in(json.dumps({**job(), "kind": kind}))
    assert (found.gangs, found.wrong, len(found.others)) == ((), (), 1)
