"""Every metric of the process. Labels never hold an object's name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Registered in `registry`, which is passed in: nothing global."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.actions = Counter(
            "taugrid_ray_actions_total",
            "Actions carried out, by action and outcome.",
            ["action", "outcome"],
            registry=registry,
        )
        self.reasons = Counter(
            "taugrid_ray_reasons_total",
            "News told to users, by reason.",
            ["reason"],
            registry=registry,
        )
        self.decision_seconds = Histogram(
            "taugrid_ray_decision_seconds",
            "Time to observe and decide one key.",
            buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
            registry=registry,
        )
        self.booking_seconds = Histogram(
            "taugrid_ray_booking_seconds",
            "From quota reserved to Ready, per gang.",
            buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 3600),
            registry=registry,
        )
        self.queue_length = Gauge(
            "taugrid_ray_queue_length", "Keys that wait to be looked at.", registry=registry
        )
        self.requests = Gauge(
            "taugrid_ray_provisioning_requests", "Live requests of ours.", registry=registry
        )
        self.leads = Gauge("taugrid_ray_leader", "1 while this process leads.", registry=registry)
        self.bugs = Counter(
            "taugrid_ray_internal_errors_total", "Unexpected exceptions.", registry=registry
        )
        self.unreadable = Counter(
            "taugrid_ray_unreadable_objects_total",
            "Objects in the cluster that could not be read.",
            ["kind"],
            registry=registry,
        )
