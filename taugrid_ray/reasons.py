"""The words for what we say: stages, reasons, clocks.

A gang's life is one line, Queued to Finished; each stage on it is left by one clock. `Reason` is
the one vocabulary for check messages, events, log lines, metric labels and what `taugrid status`
prints; `sentences.py` has the sentence for each. A reason is API: once released it keeps its
meaning.
"""

from __future__ import annotations

from enum import Enum


class Stage(str, Enum):
    """Where a gang stands. The line runs downwards; Parked and GaveUp are its sidings."""

    QUEUED = "Queued"
    PROVISIONING = "Provisioning"
    STARTING_NODES = "StartingNodes"
    STARTING_PODS = "StartingPods"
    RUNNING = "Running"
    FINISHED = "Finished"
    PARKED = "Parked"
    GAVE_UP = "GaveUp"


class Reason(str, Enum):
    """Why a gang stands where it stands. Each value says when it surfaces."""

    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Kueue has not reserved quota; nothing was asked of the autoscaler."""
    CAPACITY_NOT_NEEDED = "CapacityNotNeeded"
    """No pod set of the gang asks for a managed resource on a flavor that the check covers."""
    CAPACITY_REQUESTED = "CapacityRequested"
    """The gang's requests exist and the autoscaler has not answered yet."""
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    """The autoscaler looked and found no room; it keeps trying until the provision deadline."""
    CAPACITY_PROVISIONED = "CapacityProvisioned"
    """The whole gang is booked. Booked is not ready: nodes may still be starting."""
    WAITING_FOR_NODES = "WaitingForNodes"
    """Booked nodes are not Ready yet."""
    WAITING_FOR_ACCELERATORS = "WaitingForAccelerators"
    """Nodes are Ready but do not advertise what the gang asks for (device plugin)."""
    WAITING_FOR_PODS = "WaitingForPods"
    """Nodes are there; pods are not all running yet."""
    PROVISIONING_FAILED = "ProvisioningFailed"
    """The autoscaler said a final no to a request of this attempt."""
    PROVISIONING_TIMED_OUT = "ProvisioningTimedOut"
    """The provision deadline ran out without a yes to the whole gang."""
    BOOKING_EXPIRED = "BookingExpired"
    """Booked capacity was let go before the job could start."""
    CAPACITY_REVOKED = "CapacityRevoked"
    """The provider took booked capacity back (only some providers ever say this)."""
    REQUEST_REFUSED = "RequestRefused"
    """The API server or a webhook refused the request; the message has its words."""
    NODES_TIMED_OUT = "NodesTimedOut"
    """Booked nodes did not become Ready in time."""
    ACCELERATORS_TIMED_OUT = "AcceleratorsTimedOut"
    """Booked nodes are Ready but never advertised what the gang asks for."""
    PODS_TIMED_OUT = "PodsTimedOut"
    """Nodes are there, yet not all pods run in time."""
    POLICY_INVALID = "PolicyInvalid"
    """The CapacityPolicy that the check names is missing or cannot be used."""
    GANG_INVALID = "GangInvalid"
    """The gang cannot be asked for as it is; the message names pod set and field."""
    RESUMED = "Resumed"
    """The pause between two attempts is over; the gang is back in the queue."""
    GAVE_UP = "GaveUp"
    """The last attempt failed; only a person starts it again."""
    GROWING = "Growing"
    """A running cluster wants more workers; their capacity is being asked for."""
    GROWTH_SETTLED = "GrowthSettled"
    """Nothing more is wanted than runs."""
    GROWTH_REFUSED = "GrowthRefused"
    """No capacity for more workers; the job goes on, and asks again after a pause."""
    GROWTH_WITHDRAWN = "GrowthWithdrawn"
    """The Ray autoscaler did not take back a refused wish in time, so we did."""
    GROWTH_POSSIBLE = "GrowthPossible"
    """The pause after a refusal is over; the limits are as they were before it."""
    INTERNAL_ERROR = "InternalError"
    """A bug of ours; the message gives the exception's type."""


class Clock(str, Enum):
    """The five clocks of a gang. Queue time is never counted as provisioning time."""

    QUEUE = "queue"
    PROVISION = "provision"
    NODES = "nodes"
    ACCELERATORS = "accelerators"
    PODS = "pods"
