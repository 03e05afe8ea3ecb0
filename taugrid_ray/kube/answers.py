"""What the API server's "no" means: an HTTP status and a Status object become one exception of
`errors`.

Two answers need more than their number. 409 is AlreadyExists or Conflict, by its reason. A JSON
patch that cannot be applied, because a `test` does not hold or a path is missing, is answered with
422, a sentence that says nothing and empty details (kube-apiserver 1.36.3), unlike a validation,
which names the object and the field. Where the patch had a `test`, that is a Conflict to us: read
again and decide again, as with an old resourceVersion.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from taugrid_ray.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFault,
    Throttled,
    Unauthorized,
)

MESSAGE_MAX = 1024

_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
_PATCH_UNFIT = "the server rejected our request due to an error in our request"


def plain(text: str, *, length: int = MESSAGE_MAX) -> str:
    """`text` without control characters, cut to `length`: it may come from users and end on a
    terminal."""
    clean = "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)
    clean = " ".join(clean.split())
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def error_from(
    what: str,
    status: int,
    body: bytes | Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    has_test: bool = False,
) -> ApiError:
    """The exception for one refused call. `what` says which: "patch RayJob team-a/train".

    has_test: the call was a JSON patch with a `test` operation.
    """
    answer = body if isinstance(body, Mapping) else _read(body)
    reason = str(answer.get("reason") or "")
    said = str(answer.get("message") or "")
    kind: type[ApiError] = _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    elif status == 422 and said == _PATCH_UNFIT:
        kind = Conflict if has_test else Invalid
        said = "the patch does not fit the object as it is now"
    return kind(
        plain(f"{what}: {said or reason or 'no explanation'} (HTTP {status})"),
        status=status,
        reason=plain(reason, length=100),
        retry_after_s=_retry_after_s(answer, headers),
        hint=_hint(kind, said),
    )


def _read(body: bytes) -> Mapping[str, Any]:
    """A Status object; or what a proxy in between said, as a message."""
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    return {"message": plain(text, length=200)}


def _retry_after_s(answer: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    details = answer.get("details")
    told = headers.get("Retry-After") or (
        details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    )
    try:
        return max(0.0, float(told)) if told is not None else None
    except (TypeError, ValueError):
        return None  # an HTTP date: nobody in front of an API server sends one


def _hint(kind: type[ApiError], said: str) -> str:
    if kind is Unauthorized:
        return "the credentials are not accepted: log in again, or check the kubeconfig's user"
    if kind is Forbidden and "system:anonymous" in said:
        return "no credentials were sent: check the kubeconfig's user and its exec plug-in"
    return ""
