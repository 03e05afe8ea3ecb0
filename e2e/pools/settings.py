"""What can be set: the pools, and the habits of their autoscaler.

Read from the ConfigMap `kube-system/e2e-pools`, key `pools`, while the process runs. Unknown
fields are errors. Defaults are those of Cluster Autoscaler, so that a test which says nothing
sees what the real one would do; tests that must not take minutes set shorter times.
"""

from __future__ import annotations

import fnmatch
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from taugrid_ray.errors import UsageError
from taugrid_ray.quantity import parse as parse_quantity

BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"

Never = Literal["never"]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PoolName = Annotated[
    str, StringConstraints(max_length=50, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]


class SettingsError(UsageError):
    """The ConfigMap cannot be used. The message names the field."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Taint(_Model):
    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class NodeSpec(_Model):
    """What every node of the pool looks like."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict, description="Empty: as allocatable.")

    @field_validator("allocatable", "capacity", mode="before")
    @classmethod
    def _plain_numbers_too(cls, value: Any) -> Any:
        """YAML reads `cpu: 4` as a number; a quantity is a string."""
        if not isinstance(value, dict):
            return value
        return {
            k: str(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v
            for k, v in value.items()
        }

    @field_validator("allocatable", "capacity")
    @classmethod
    def _quantities(cls, value: dict[str, str]) -> dict[str, str]:
        for resource, text in value.items():
            try:
                amount = parse_quantity(text)
            except ValueError as wrong:
                raise ValueError(f"{resource}: {wrong}") from wrong
            if amount < 0:
                raise ValueError(f"{resource}: {text!r} is less than nothing")
        return value


class StockOut(_Model):
    """The cloud refuses to make the pool larger than this."""

    after_nodes: int = Field(default=0, ge=0)
    partial: bool = Field(
        default=False,
        description="Nodes up to the limit are made although the call as a whole is refused.",
    )


class Pool(_Model):
    name: PoolName
    min: int = Field(default=0, ge=0)
    max: int = Field(default=200, ge=0)
    kind: Literal["fake", "process"] = "fake"
    node: NodeSpec = Field(default_factory=NodeSpec)
    boot_seconds: Seconds | Never = Field(
        default=0, description="From the accepted resize until the Node object appears."
    )
    ready_seconds: Seconds | Never = Field(
        default=0, description="From the Node object until the node is brought up."
    )
    without_accelerators: Seconds | Never | None = Field(
        default=None,
        description="The node comes up without its device-plugin resources (names with a slash); "
        "they are advertised so many seconds later, or never.",
    )
    stock_out: StockOut | None = None

    @field_validator("stock_out", mode="before")
    @classmethod
    def _true_means_at_once(cls, value: Any) -> Any:
        return {True: {}, False: None}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _min_below_max(self) -> Pool:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Match(_Model):
    """Which requests a rule is for: all that is given must hold; `*` and `?` as in file names."""

    name: str = "*"
    namespace: str = "*"
    class_name: str = "*"
    labels: dict[str, str] = Field(default_factory=dict)

    def holds(self, name: str, namespace: str, class_name: str, labels: dict[str, str]) -> bool:
        patterns = ((self.name, name), (self.namespace, namespace), (self.class_name, class_name))
        return all(fnmatch.fnmatchcase(text, pattern) for pattern, text in patterns) and all(
            labels.get(k) == v for k, v in self.labels.items()
        )


class Broken(_Model):
    """Force an answer upon some requests, as a bug or another provider would give it."""

    match: Match = Field(default_factory=Match)
    answer: Literal["Silent", "NotFound", "Failed", "BookingExpired", "CapacityRevoked"]
    after_seconds: Seconds = Field(
        default=0,
        description="Failed and NotFound: after creation; "
        "BookingExpired and CapacityRevoked: after Provisioned.",
    )
    reason: str = ""
    message: str = ""


class Autoscaler(_Model):
    classes: tuple[str, ...] = Field(
        default=(BEST_EFFORT_ATOMIC, CHECK_CAPACITY),
        description="Requests of any other class never get a condition.",
    )
    booking_seconds: Seconds = 600
    booking_consumed: bool = Field(
        default=False,
        description="As from release 1.37: a booking ends once all its pods are bound. "
        "Before, pods that run and their booking are both counted.",
    )
    request_expiry_seconds: Seconds = 7 * 24 * 3600
    initial_backoff_seconds: Seconds = 60
    max_backoff_seconds: Seconds = 600
    initial_pool_backoff_seconds: Seconds = 300
    max_pool_backoff_seconds: Seconds = 1800
    max_node_provision_seconds: Seconds = 900
    scale_down_unneeded_seconds: Seconds = 600
    scale_down_unready_seconds: Seconds = 1200
    scale_down_delay_after_add_seconds: Seconds = 600
    check_capacity_batch: int = Field(default=1, ge=1)
    answer_delay_seconds: Seconds = Field(
        default=0, description="A request is not looked at before it is this old."
    )
    instant: bool = Field(
        default=False,
        description="Say Provisioned to every request at once, without looking at nodes or making "
        "any. For benchmarks of those who ask.",
    )
    broken_for: tuple[Broken, ...] = ()


class Settings(_Model):
    pools: tuple[Pool, ...] = ()
    autoscaler: Autoscaler = Field(default_factory=Autoscaler)

    @model_validator(mode="after")
    def _names_differ(self) -> Settings:
        names = [pool.name for pool in self.pools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"pools: the name {twice[0]!r} is used more than once")
        return self

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)


def load(text: str) -> Settings:
    """Read YAML. Raises SettingsError with the field's path, such as `pools[0].min`."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        raise SettingsError(f"not YAML: {' '.join(str(wrong).split())}") from wrong
    try:
        return Settings.model_validate(found if found is not None else {})
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        where = _path(first["loc"])
        raise SettingsError(f"{where}{': ' if where else ''}{first['msg']}") from wrong


def _path(loc: tuple[int | str, ...]) -> str:
    """`("pools", 0, "min")` as `pools[0].min`; names of union members are left out."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
    return text
