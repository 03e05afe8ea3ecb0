"""Kubernetes' spelling rules for names and labels, with the right form in every refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taugrid_ray.kinds.strict import Field, FieldError, shown

LABEL_MAX = 63
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DNS_1035 = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(?:\.{_DNS_LABEL.pattern})*")
_SUBDOMAIN_MAX = 253
_UNSAFE = re.compile(r"[^a-z0-9]+")


def is_label_value(text: str) -> bool:
    return len(text) <= LABEL_MAX and _LABEL_VALUE.fullmatch(text) is not None


def is_dns_1035(text: str) -> bool:
    return len(text) <= LABEL_MAX and _DNS_1035.fullmatch(text) is not None


def is_dns_label(text: str) -> bool:
    return len(text) <= LABEL_MAX and _DNS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    return len(text) <= _SUBDOMAIN_MAX and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """A label or resource name: an optional DNS prefix, a slash, and a label value."""
    prefix, slash, name = text.rpartition("/")
    return is_label_value(name) and (not slash or is_subdomain(prefix))


def as_dns_label(text: str, *, longest: int = LABEL_MAX) -> str:
    """The nearest right name: lower case, dashes, a letter first."""
    name = _UNSAFE.sub("-", text.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"x-{name}".rstrip("-")
    return name[:longest].rstrip("-")


def name_problems(name: Field, *, kind: str, longest: int) -> Iterator[FieldError]:
    """A name that KubeRay's services and pods can be built from."""
    text = name.text()
    if len(text) > longest:
        yield name.wrong(
            f"{shown(text)} has {len(text)} characters, a {kind} name at most {longest}; "
            f"write for example '{as_dns_label(text, longest=longest)}'"
        )
    elif not is_dns_1035(text):
        yield name.wrong(
            f"{shown(text)} is not a {kind} name: lower-case letters, digits and dashes, a letter "
            f"first; write for example '{as_dns_label(text, longest=longest)}'"
        )


def label_problems(labels: Field) -> Iterator[FieldError]:
    for key, value in labels.entries():
        if not is_qualified(key):
            yield value.wrong(
                f"{shown(key)} is not a label key: letters, digits, '-', '_' and '.', at most "
                f"{LABEL_MAX} of them, after an optional prefix such as example.com/"
            )
        text = value.text()
        if text and not is_label_value(text):
            yield value.wrong(
                f"{shown(text)} is not a label value: letters, digits, '-', '_' and '.', at most "
                f"{LABEL_MAX}, a letter or digit first and last"
            )
