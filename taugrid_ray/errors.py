"""Every exception of the library, in one tree.

    TaugridError                what happened, where, and what to do next; carries an exit code
      UsageError          2     the caller can mend it
        ManifestError     2     a manifest that cannot be a gang, or cannot be read
        PolicyError       2     a CapacityPolicy that cannot be used
      ApiError            1     the API server answered "no": status, reason, retry_after_s
        NotFound  AlreadyExists  Conflict  Gone  Invalid  Forbidden  Unauthorized  Throttled
        ServerFault
      Unreachable         1     no answer at all: refused, timed out, cut off, TLS
      WaitTimedOut      124     the wait ran out; the job lives on
      JobEnded          125     the job failed, gave up, was refused or was cancelled by someone
      else Detached          130     Ctrl-C; the job lives on

Inside the controllers an outcome of capacity is a value, never an exception.
"""

from __future__ import annotations


class TaugridError(Exception):
    """Base of all. `hint` is the next thing to do, as a sentence or a command; may be empty."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TaugridError):
    """The caller can mend it: a flag, a file, a name."""

    exit_code = 2


class ManifestError(UsageError):
    """A manifest that is not a gang, or not readable. The message names the field."""


class PolicyError(UsageError):
    """A CapacityPolicy that cannot be used. The message names the field."""


class ApiError(TaugridError):
    """The API server answered no.

    status: the HTTP status. reason: the API's own word, such as `NotFound`, or "".
    retry_after_s: seconds the server asked us to wait, or None.
    """

    status = 0

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status or type(self).status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Would the same call perhaps succeed a little later?"""
        return self.status == 429 or self.status >= 500


class NotFound(ApiError):
    status = 404


class AlreadyExists(ApiError):
    status = 409


class Conflict(ApiError):
    """Somebody else wrote first, or a test in a JSON patch did not hold: read again, decide
    again.
    """

    status = 409


class Gone(ApiError):
    """The resourceVersion is too old: list again."""

    status = 410


class Invalid(ApiError):
    """Refused by validation or a webhook; the same call will never pass."""

    status = 422


class Forbidden(ApiError):
    status = 403


class Unauthorized(ApiError):
    status = 401


class Throttled(ApiError):
    status = 429


class ServerFault(ApiError):
    status = 500


class Unreachable(TaugridError):
    """No answer at all: refused, timed out, cut off, bad certificate. The write may have
    happened.
    """

    @property
    def retryable(self) -> bool:
        return True


class WaitTimedOut(TaugridError):
    exit_code = 124


class JobEnded(TaugridError):
    exit_code = 125


class Detached(TaugridError):
    exit_code = 130
