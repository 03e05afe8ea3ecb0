"""CapacityPolicy: how long to wait for capacity, how often to ask, and what then.

The models below are the only source: the CRD (`deploy/crds/`), the file loader and the reference
page all come from them. Unknown fields are errors with the nearest known name; a wrong value says
value, limit and place. Times are seconds.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from taugrid_ray.errors import PolicyError
from taugrid_ray.kinds.resource import CAPACITY_POLICY, Obj

Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
DnsName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]
ResourceName = Annotated[str, StringConstraints(min_length=1, max_length=317)]
ParameterValue = Annotated[str, StringConstraints(max_length=255)]

BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class Step(_Model):
    """One way to ask for capacity, with attempts of its own."""

    provisioning_class_name: DnsName = Field(
        default=BEST_EFFORT_ATOMIC, description="The ProvisioningRequest class that is asked."
    )
    parameters: dict[str, ParameterValue] = Field(
        default_factory=dict, max_length=100, description="Passed to the class as they are."
    )
    attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Rounds of asking; between two of them the workload is parked.",
    )


class Deadlines(_Model):
    """Clocks in seconds; one that runs out is a failure with that clock's name."""

    provision: Seconds = Field(
        default=900, description="From asking until the whole gang is booked."
    )
    max_provision: Seconds = Field(
        default=3600, description="The most that a job or profile may ask for instead."
    )
    nodes: Seconds = Field(default=600, description="From booked until the booked nodes are Ready.")
    accelerators: Seconds = Field(
        default=300, description="From Ready nodes until they advertise what the gang asks for."
    )
    pods: Seconds = Field(default=600, description="From there until all pods of the gang run.")

    @model_validator(mode="after")
    def _ordered(self) -> Deadlines:
        if self.provision > self.max_provision:
            raise ValueError(
                f"provision is {self.provision} but maxProvision is {self.max_provision}: "
                "raise maxProvision or lower provision"
            )
        return self


class Backoff(_Model):
    """A pause that doubles: base, 2 x base, 4 x base ... up to max."""

    base_seconds: Seconds = Field(default=60, description="The first pause.")
    max_seconds: Seconds = Field(default=1800, description="No pause is longer.")

    def pause_s(self, failures: int) -> int:
        """Seconds to wait after the `failures`-th failure in a row (1 is the first)."""
        doublings = min(max(failures - 1, 0), 32)
        return min(self.base_seconds << doublings, self.max_seconds)


class Growth(_Model):
    """How a running Ray cluster grows."""

    deadline: Seconds = Field(default=900, description="From asking until the growth is booked.")
    cooldown: Backoff = Field(
        default_factory=Backoff, description="How long maxReplicas stays lowered after a refusal."
    )


class CapacityPolicySpec(_Model):
    """What an AdmissionCheck's `spec.parameters` points at."""

    managed_resources: tuple[ResourceName, ...] = Field(
        default=(),
        max_length=100,
        description="A pod set that asks for none of these needs no capacity; empty means all do.",
    )
    steps: tuple[Step, ...] = Field(
        default=(Step(),),
        min_length=1,
        max_length=16,
        description="Tried in order, each with its own attempts.",
    )
    deadlines: Deadlines = Field(default_factory=Deadlines)
    backoff: Backoff = Field(default_factory=Backoff)
    on_give_up: Literal["Park", "Reject"] = Field(
        default="Park",
        description="After the last attempt: Park keeps the workload inactive and resumable; "
        "Reject writes Kueue's final Rejected.",
    )
    ready_when: Literal["Booked", "NodesReady"] = Field(
        default="Booked",
        description="NodesReady holds admission until the booked nodes are Ready and advertise "
        "the gang's resources.",
    )
    growth: Growth = Field(default_factory=Growth)

    def provision_s(self, asked: int | None) -> int:
        """The provision deadline of one gang: what its job asked for, within maxProvision."""
        if asked is None:
            return self.deadlines.provision
        return min(asked, self.deadlines.max_provision)


def parse_spec(raw: Any, *, where: str) -> CapacityPolicySpec:
    """Read a `spec`; PolicyError with one sentence per fault, each naming place, value and limit.

    where: how to call the object in an error, such as `CapacityPolicy "gold"`.
    """
    try:
        return CapacityPolicySpec.model_validate(raw if raw is not None else {})
    except ValidationError as fault:
        raise PolicyError(
            f"{where}: " + "; ".join(_sentence(e) for e in fault.errors(include_url=False))
        ) from fault


def parse_policy(obj: Obj) -> CapacityPolicySpec:
    """Read a whole CapacityPolicy object, as loaded from a file or from the API server."""
    name = str((obj.get("metadata") or {}).get("name", ""))
    where = f'CapacityPolicy "{name}"'
    if obj.get("apiVersion") != CAPACITY_POLICY.api_version or obj.get("kind") != "CapacityPolicy":
        raise PolicyError(
            f"{where}: expected apiVersion {CAPACITY_POLICY.api_version} and kind CapacityPolicy, "
            f"found {obj.get('apiVersion')} and {obj.get('kind')}"
        )
    return parse_spec(obj.get("spec"), where=where)


def _sentence(error: Any) -> str:
    place = ".".join(str(part) for part in ("spec", *error["loc"]))
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(error["loc"][-1]), _known(error["loc"]), n=1)
        return f"{place} is not a field" + (f"; did you mean {near[0]}?" if near else "")
    shown = repr(error.get("input"))[:80]
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {message[0].lower()}{message[1:]}, found {shown}"


def _known(loc: tuple[int | str, ...]) -> list[str]:
    """The field names at the place where an unknown one was found."""
    model: Any = CapacityPolicySpec
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        field = next(f for name, f in model.model_fields.items() if to_camel(name) == part)
        inner = field.annotation
        while getattr(inner, "__args__", None):
            inner = inner.__args__[0]
        model = inner
    return [to_camel(name) for name in model.model_fields]
