"""Deliberate faults, made in memory: a test that none of them can slip through is worth something.

A fault replaces one piece of a module's source, which must be there exactly once. The changed
source is compiled, and its functions lend their code to those of the real module, so that whoever
imported them gets the fault too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Fault:
    says: str
    module: str
    before: str
    after: str


def _fault(says: str, module: str, before: str, after: str) -> Fault:
    package = "taugrid_ray" if module in ("booking", "memory", "verdict") else "controllers"
    return Fault(says, f"{package}.{module}", before, after)


FAULTS = (
    # Which part of its life is this?
    _fault("an eviction is overlooked", "gang.decide", "or workload.is_true(wl.EVICTED)", "or 0"),
    _fault(
        "what is finished is not swept",
        "gang.decide",
        "if workload.is_true(wl.FINISHED):\n        return Decision(drop_all_but(seen, ()))",
        "if workload.is_true(wl.FINISHED):\n        return Decision()",
    ),
    _fault(
        "a user's own pause is ended",
        "gang.decide",
        "if memory.pause is not Pause.PARKED or memory.resume_at_s is None:",
        "if memory.pause is Pause.GAVE_UP:",
    ),
    _fault(
        "a pause ends while Kueue still holds the quota",
        "gang.decide",
        "if workload.reservation is not None:",
        "if 0:",
    ),
    _fault(
        "a pause never ends", "gang.decide", "if left_s > 0:", "if left_s > 0 or memory.failures:"
    ),
    _fault(
        "who resumes by hand does not start afresh",
        "gang.decide",
        "if memory.pause in (Pause.PARKED, Pause.GAVE_UP):",
        "if memory.pause is Pause.PARKED:",
    ),
    _fault("a running job is taken for a cold one", "gang.decide",
           "if not seen.job.suspended or seen.runs:", "if 0:"),
    _fault("the rejected are asked for again", "gang.decide",
           "or check.state in (CheckState.RETRY, CheckState.REJECTED)", "or 0"),
    # Cold
    _fault("half a gang is Ready", "gang.cold", "if all(a.answer and", "if any(a.answer and"),
    _fault("the deadline is overlooked", "gang.cold", "if now_s >= wait.until_s:", "if 0:"),
    _fault("asking again restarts the clock", "gang.cold",
           "return min(marks, default=first_s)", "return now_s"),
    _fault("what is refused has no deadline", "gang.cold",
           "reservation.changed_at_s if seen.refused and reservation is not None else now_s",
           "now_s"),
    _fault("the request comes before its templates", "gang.cold",
           "return (*templates, *(Create(PROVISIONING_REQUEST, a.booking.request)"
           " for a in missing))",
           "return (*(Create(PROVISIONING_REQUEST, a.booking.request)"
           " for a in missing), *templates)"),
    _fault("an expired booking is not asked for again", "gang.cold", "serial += 1", "serial += 0"),
    _fault("templates of the next request are swept", "gang.cold", "templates=wanted)",
           "templates=frozenset())"),
    _fault("the job's own deadline is ignored", "gang.cold",
           "policy.provision_s(_own_deadline(job))", "policy.provision_s(None)"),
    _fault("a final no is overlooked", "gang.cold", "if a.answer.verdict is Verdict.FAILED:",
           "if 0:"),
    _fault("elastic pods get a name that goes stale", "gang.cold",
           "if not workload.is_elastic:", "if 1:"),
    _fault("the same is said again and again", "gang.cold",
           "if check.message == told.sentence:\n        return Decision()",
           "if 0:\n        return Decision()"),
    _fault("a broken policy keeps its requests", "gang.cold",
           "return Decision((*_drop_stale(seen, ()), *said.actions))",
           "return Decision(said.actions)"),
    _fault("nothing is said of a request that waits", "gang.cold",
           "quiet_left_s = asked_at_s + QUIET_S - now_s", "quiet_left_s = 1.0"),
    # After Ready
    _fault("a booking is let go before its pods are bound", "gang.admitted",
           ">= request.pods:", ">= 0:"),
    _fault("a used booking is kept", "gang.admitted", "if not waiting and sum(", "if 0 and sum("),
    _fault("what runs is parked", "gang.admitted", "if started:", "if 0:"),
    _fault("an elastic gang that may run is parked", "gang.admitted",
           "or workload.is_elastic\n", "or 0\n"),
    _fault("stale stamps stay on pods", "gang.admitted", "and p.booking not in bookings", "and 0"),
    _fault("a booking that is over is overlooked while another check holds", "gang.admitted",
           "if over := next((a for a in answers if a.verdict in _OVER), None):",
           "if over := None:"),
    _fault("the end of a booking ends the nodes clock", "gang.admitted",
           "if verdict not in _OVER:\n        return False\n    return sum(",
           "return verdict in _OVER or sum("),
    _fault("failures are remembered for ever", "gang.admitted", "and memory != FRESH", "and 0"),
    # Failing
    _fault("nobody ever gives up", "gang.failure", "if step > len(policy.steps):", "if step > 9:"),
    _fault("pauses do not grow", "gang.failure", "pause_s(failures)", "pause_s(1)"),
    _fault("failures are not counted", "gang.failure", "failures = memory.failures + 1",
           "failures = 1"),
    _fault("steps are never left", "gang.failure", "attempt, step = 1, step_index + 1",
           "attempt, step = 1, step_index"),
    _fault("Reject and Park are mixed up", "gang.failure", 'on_give_up == "Reject"',
           'on_give_up != "Reject"'),
    # Leaving nothing behind
    _fault("templates are left behind", "gang.release", "if t.name not in named and",
           "if 0 and"),
    _fault("requests are left behind", "gang.release", "if r.meta.uid not in uids and", "if 0 and"),
    _fault("live requests are deleted", "gang.release", "if r.meta.uid not in uids and", "if"),
    # Nodes
    _fault("nodes that are not Ready count", "gang.nodes", "if n.is_ready and", "if"),
    _fault("nodes of other pools count", "gang.nodes", "and n.matches(pool.node_labels)", ""),
    _fault("GPUs are not waited for", "gang.nodes", "if whole >= total:", "if 1:"),
    # Writing
    _fault("a decision on an older state is carried out", "perform",
           'return {"resourceVersion": at.version, "uid": at.uid}', 'return {"uid": at.uid}'),
    _fault("the check is written over a newer state", "perform",
           '{"op": "test", "path": "/metadata/resourceVersion",'
           ' "value": action.workload.version},', ""),
    _fault("whatever bears the name is deleted", "perform",
           "at.name, at.namespace, uid=at.uid)", "at.name, at.namespace)"),
    _fault("Kueue's delay is not cleared", "perform", '"requeueAfterSeconds": 0,', ""),
    _fault("a stranger's object is taken for ours", "perform",
           "if ours and same and _same_content(action.obj, there):", "if 1:"),
    _fault("a refused delete is believed", "perform", "if there.uid == at.uid:", "if 0:"),
    # The loop
    _fault("a refusal is forgotten", "loop", "self._refused[done.key] = error.message", "pass"),
    _fault("a taken name is tried for ever", "loop",
           "self._salts[done.key] = self._salts.get(done.key, 0) + 1", "pass"),
    _fault("a standby acts", "loop",
           "if not self.leads or not self.world.synced:\n            return []",
           "if not self.world.synced:\n            return []"),
    _fault("our own writes are not read", "loop", "deltas = store.accept(written.obj)",
           "deltas = ()"),
    _fault("nodes wake nobody", "loop",
           "self._add(tuple(self._wait_for_nodes), now_s + NODE_SETTLE_S)", "pass"),
    _fault("leftovers of dead Workloads are not looked for", "gang.wiring",
           'found.update(world.stores[kind].words("workload"))', "pass"),
    # Leading
    _fault("a live leader is pushed aside", "lease",
           "now_s - record.seen_at_s > record.duration_s", "True"),
    _fault("a leader that cannot renew leads on", "lease",
           "and self._clock.monotonic_s() - self._renewed_at_s < self._renew_deadline_s", ""),
    # Values
    _fault("steps are not remembered", "memory", 'step=max(1, fields.integer(raw, "step") or 1)',
           "step=1"),
    _fault("attempts share a name", "booking", "asking.reservation, str(asking.attempt)",
           "asking.reservation"),
    _fault("the check's flavors are ignored", "booking",
           "if on_flavors and not set(assigned) & set(on_flavors):", "if 0:"),
    _fault("unmanaged resources are booked", "booking",
           "if managed_resources and not _asks_for(pod_set.template, managed_resources):",
           "if 0:"),
    _fault("pods do not say whose they are", "booking",
           '"labels": {names.WORKLOAD_UID: workload_uid},', ""),
    _fault("a used booking is taken for a lost one", "verdict",
           "Verdict.CONSUMED if good else Verdict.EXPIRED", "Verdict.EXPIRED"),
    _fault("Provisioned hides what came later", "verdict", "if failed := true(pr.FAILED):",
           "if failed := None:"),
)  # fmt: skip


@contextmanager
def made(fault: Fault) -> Iterator[None]:
    """The fault is there inside of the `with`."""
    module = importlib.import_module(fault.module)
    source = inspect.getsource(module)
    found = source.count(fault.before)
    if found != 1:
        raise LookupError(f"{fault.says}: its text is {found} times in {fault.module}")
    file = str(module.__file__)
    scratch: dict[str, Any] = {"__name__": module.__name__, "__file__": file}
    # The name of a real module, since dataclasses look it up; nothing there is changed.
    exec(compile(source.replace(fault.before, fault.after), file, "exec"), scratch)
    changed = dict(_functions(scratch, file))
    before: list[tuple[FunctionType, CodeType]] = []
    try:
        for name, function in _functions(vars(module), file):
            before.append((function, function.__code__))
            function.__code__ = changed[name].__code__
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _functions(names: dict[str, Any], file: str) -> Iterator[tuple[str, FunctionType]]:
    """All functions and methods that were written in `file`."""
    for name, value in names.items():
        if isinstance(value, FunctionType) and value.__code__.co_filename == file:
            yield name, value
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            yield name, value.fget
        elif inspect.isclass(value) and value.__module__ == names["__name__"]:
            inner = {"__name__": names["__name__"], **vars(value)}
            for method, function in _functions(inner, file):
                yield f"{name}.{method}", function
