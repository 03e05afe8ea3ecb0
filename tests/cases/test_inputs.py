"""Every manifest of the folder of cases is a gang with the right sums, or refused in one sentence.

The folder is found at run time (TAUGRID_RAY_CASES). The sums were worked out by hand: totals.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from taugrid_ray.errors import ManifestError
from taugrid_ray.gang import Document, Gang, Manifests, gangs_in
from taugrid_ray.quantity import parse
from tests.cases.folder import absent, content, files
from tests.cases.totals import MENDED, WANT, Refused, Sum

_LONGEST = 400


def read(file: str, text: bytes) -> Manifests | ManifestError:
    try:
        return gangs_in(text, name=f"{file}.yaml")
    except ManifestError as refused:
        return refused


def _gangs_or_refused(read_as: Manifests | ManifestError) -> list[Gang | ManifestError]:
    """In the order written; objects of other kinds left out."""
    if isinstance(read_as, ManifestError):
        return [read_as]
    found: list[Gang | ManifestError | None] = [d.gang or d.wrong for d in read_as.documents]
    return [one for one in found if one is not None]


def check_sentence(refused: ManifestError) -> None:
    """One clear sentence: on one line, printable, of a length to read, naming a thing and why."""
    for text in (refused.message, refused.hint):
        assert text.isprintable(), text
        assert "Traceback" not in text
    assert ": " in refused.message
    assert len(refused.message) <= _LONGEST, refused.message


def check_sums(gang: Gang) -> None:
    """The total is the sum over the pod sets, and each pod set its count times one pod."""
    summed: dict[str, Fraction] = {}
    for group in gang.groups:
        assert group.count >= 0
        for name, amount in group.per_pod.items():
            assert amount >= 0
            summed[name] = summed.get(name, Fraction(0)) + amount * group.count
    assert {n: a for n, a in summed.items() if a} == gang.total
    assert sum(group.count for group in gang.groups) == gang.pods


def check_document(document: Document) -> None:
    assert document.subject.isprintable()
    assert not (document.gang is not None and document.wrong is not None)
    if document.wrong is not None:
        check_sentence(document.wrong)
    if document.gang is not None:
        check_sums(document.gang)
        for note in document.gang.notes:
            assert note.message.isprintable(), note
        assert document.gang.groups, "a gang of nothing"


@pytest.mark.parametrize(
    "file", files() or [pytest.param("", marks=pytest.mark.skip(reason=absent()))]
)
def test_each_is_a_gang_or_refused_in_one_sentence(file: str) -> None:
    manifests = read(file, content(file))
    if isinstance(manifests, ManifestError):
        check_sentence(manifests)
        return
    assert manifests.documents
    for document in manifests.documents:
        check_document(document)


@pytest.mark.parametrize("file", WANT)
def test_sums_worked_out_by_hand(file: str) -> None:
    found = _gangs_or_refused(read(file, content(file)))
    check(found, WANT[file])


@pytest.mark.parametrize("file", MENDED)
def test_sums_of_a_file_that_was_refused_once_it_is_mended(file: str) -> None:
    swaps, want = MENDED[file]
    text = content(file).decode()
    for wrong, right in swaps.items():
        assert wrong in text
        text = text.replace(wrong, right)
    check(_gangs_or_refused(read(file, text.encode())), want)


def test_enough_sums_were_worked_out_by_hand() -> None:
    """At least 25 files with sums; every file that the folder has is in the table."""
    with_sums = [f for f, wanted in WANT.items() if any(isinstance(w, Sum) for w in wanted)]
    assert len(with_sums) >= 25
    assert not set(files()) - set(WANT)


def check(found: list[Gang | ManifestError], want: tuple[Sum | Refused, ...]) -> None:
    assert [isinstance(one, Gang) for one in found] == [isinstance(one, Sum) for one in want]
    for one, wanted in zip(found, want, strict=True):
        if isinstance(one, ManifestError):
            assert isinstance(wanted, Refused)
            sentence = f"{one.message} {one.hint}"
            assert [part for part in wanted.says if part not in sentence] == [], sentence
        else:
            assert isinstance(wanted, Sum)
            assert {group.name: group.count for group in one.groups} == dict(wanted.pods)
            pods = amounts({"cpu": wanted.cpu, "memory": wanted.memory, **wanted.others})
            assert one.total == pods
            counted = pods if wanted.counted is None else amounts(wanted.counted)
            assert one.counted_total == counted


def amounts(written: Mapping[str, str]) -> dict[str, Fraction]:
    return {name: parse(text) for name, text in written.items() if parse(text)}
