"""Start a job from a manifest: check it as a gang, make it once, know it again.

The manifest stays the user's. Three things are added to the job: its queue label where the command
names one, `suspend: true` where Kueue will start it, and the hash of all that as an annotation.
The hash is what makes the same file safe to run twice: the second time nothing is made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from taugrid_ray import names
from taugrid_ray.errors import AlreadyExists, ManifestError, NotFound, Unreachable, UsageError
from taugrid_ray.gang import Document, Gang, Note, NoteCode, gangs_in
from taugrid_ray.gang.extract import subject
from taugrid_ray.jobs.observed import JobRef
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.meta import parse_meta
from taugrid_ray.kinds.resource import (
    CONFIG_MAP,
    JOB,
    RAY_JOB,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Obj,
    Resource,
)
from taugrid_ray.kube.api import KubeApi, Patch
from taugrid_ray.sentences import printable

COMPANIONS = (CONFIG_MAP, SECRET, SERVICE, SERVICE_ACCOUNT)
"""What a job may bring along in its file. Applied, never deleted by us."""
_COMMANDS = {JOB.kind: "taugrid run job", RAY_JOB.kind: "taugrid run ray"}


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that is ready to be sent to a namespace; see `in_namespace`."""

    kind: Resource
    namespace: str
    """Empty where neither the manifest nor the user names one."""
    obj: Obj
    gang: Gang
    companions: tuple[tuple[Resource, Obj], ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a person should know about it; first why Kueue will not manage it."""
        first = (self.gang.unmanaged,) if self.gang.unmanaged is not None else ()
        return (*first, *self.gang.notes)


@dataclass(frozen=True, slots=True)
class Submitted:
    ref: JobRef
    is_new: bool
    """False where the same manifest had made it before."""
    obj: Obj


def prepare(
    text: str, kind: Resource, *, source: str, namespace: str = "", queue: str = ""
) -> Submission:
    """Read a manifest as a gang and make it ready to be sent. Makes no call.

    source: how the text is called in errors. namespace, queue: what the user asked for, or "".
    Raises ManifestError or UsageError, one sentence each.
    """
    documents = gangs_in(text, name=source, queue=queue).documents
    wrong = next((d.wrong for d in documents if d.wrong is not None), None)
    if wrong is not None:
        raise wrong
    chosen = _the_job(documents, kind, source)
    gang = chosen.gang
    assert gang is not None
    _check_queue(chosen, gang, queue)
    others = tuple(_companion(d, source) for d in documents if d is not chosen)
    submission = Submission(kind, namespace, _made_ready(chosen.obj, gang), gang, others)
    for obj in (submission.obj, *(o for _, o in others)):
        own = parse_meta(obj).namespace
        if own and submission.namespace and own != submission.namespace:
            raise UsageError(
                f"{subject(obj)}: its manifest names namespace {printable(own, limit=100)!r}, not "
                f"{printable(submission.namespace, limit=100)!r}: all must be the same"
            )
        submission = replace(submission, namespace=own or submission.namespace)
    return submission


def in_namespace(submission: Submission, otherwise: str) -> Submission:
    """The submission as it will be sent; `otherwise` is the namespace where nobody named one."""
    namespace = submission.namespace or otherwise
    obj = _placed(submission.obj, namespace)
    meta = obj["metadata"]
    notes = fields.mapping(meta, "annotations") | {names.MANIFEST: manifest_hash(obj)}
    return replace(
        submission,
        namespace=namespace,
        obj=obj | {"metadata": meta | {"annotations": notes}},
        companions=tuple((kind, _placed(o, namespace)) for kind, o in submission.companions),
    )


def _placed(obj: Obj, namespace: str) -> Obj:
    return obj | {"metadata": fields.mapping(obj, "metadata") | {"namespace": namespace}}


def manifest_hash(obj: Obj) -> str:
    return names.digest(json.dumps(obj, sort_keys=True), length=16)


def _the_job(documents: tuple[Document, ...], kind: Resource, source: str) -> Document:
    label = printable(source, limit=200)
    gangs = [d for d in documents if d.gang is not None]
    mine = [d for d in gangs if d.obj.get("kind") == kind.kind]
    if len(gangs) > 1:
        found = ", ".join(d.subject for d in gangs[:5])
        raise ManifestError(
            f"{label}: holds {len(gangs)} jobs or clusters ({found}); write one to a file"
        )
    if not gangs:
        raise ManifestError(f"{label}: holds no {kind.kind}; write one with kind: {kind.kind}")
    if not mine:
        command = _COMMANDS.get(str(gangs[0].obj.get("kind")))
        hint = f"{command} -f {label}" if command else "taugrid run starts Jobs and RayJobs"
        raise ManifestError(f"{label}: holds {gangs[0].subject}, no {kind.kind}", hint=hint)
    return mine[0]


def _check_queue(chosen: Document, gang: Gang, queue: str) -> None:
    if queue and gang.queue != queue:
        raise UsageError(
            f"{chosen.subject}: its label {names.QUEUE} says {printable(gang.queue, limit=100)!r}, "
            f"--queue says {printable(queue, limit=100)!r}: leave one out"
        )
    if gang.unmanaged is not None and gang.unmanaged.code is NoteCode.NO_QUEUE:
        raise UsageError(
            f"{chosen.subject}: names no queue, so nothing would hold it until there is quota and "
            f"capacity; give --queue NAME or the label {names.QUEUE}",
            hint="kubectl get localqueues",
        )


def _made_ready(given: Obj, gang: Gang) -> Obj:
    meta, spec = fields.mapping(given, "metadata"), fields.mapping(given, "spec")
    if gang.queue:
        labels = fields.mapping(meta, "labels") | {names.QUEUE: gang.queue}
        meta = meta | {"labels": labels}
    if gang.managed:
        spec = spec | {"suspend": True}
    kept = {key: value for key, value in given.items() if key != "status"}
    return kept | {"metadata": meta, "spec": spec}


def _companion(document: Document, source: str) -> tuple[Resource, Obj]:
    obj = document.obj
    made_by = (obj.get("apiVersion"), obj.get("kind"))
    kind = next((k for k in COMPANIONS if made_by == (k.api_version, k.kind)), None)
    if kind is None:
        allowed = ", ".join(k.kind for k in COMPANIONS)
        raise ManifestError(
            f"{printable(source, limit=200)}: {document.subject} is no job, and only these may "
            f"come along: {allowed}",
            hint="make it first with kubectl apply",
        )
    if not parse_meta(obj).name:
        raise ManifestError(f"{document.subject}: metadata.name: is missing: write a name")
    return kind, obj


def submit(api: KubeApi, submission: Submission, *, dry_run: bool = False) -> Submitted:
    """Make the job, its companions first. Safe to repeat, also after a lost answer.

    Raises AlreadyExists where another job bears the name.
    """
    kind, namespace = submission.kind, submission.namespace
    for of, obj in submission.companions:
        name = parse_meta(obj).name
        api.patch(of, name, obj, namespace, how=Patch.APPLY, dry_run=dry_run)
    try:
        made = api.create(kind, submission.obj, namespace, dry_run=dry_run, strict=True)
    except AlreadyExists as refused:
        return _known_again(api, submission, refused)
    except NotFound as refused:
        refused.hint = f"does the namespace exist, and is {kind.kind} installed?"
        raise
    except Unreachable as lost:
        lost.hint = "it may have been made; run the same command again, it makes no second one"
        raise
    return Submitted(_ref(submission, made), True, made)


def _ref(submission: Submission, obj: Obj) -> JobRef:
    meta = parse_meta(obj)
    return JobRef(submission.kind, submission.namespace, meta.name, meta.uid)


def _known_again(api: KubeApi, submission: Submission, refused: AlreadyExists) -> Submitted:
    name = parse_meta(submission.obj).name
    there = api.get(submission.kind, name, submission.namespace)
    ref, meta = _ref(submission, there), parse_meta(there)
    sent = parse_meta(submission.obj).annotations[names.MANIFEST]
    before = meta.annotations.get(names.MANIFEST, "")
    if meta.is_terminating:
        wrong, hint = "is still being deleted", f"taugrid cancel {ref.target} -n {ref.namespace}"
    elif before == sent:
        return Submitted(ref, False, there)
    else:
        wrong = (
            "exists, made from another manifest"
            if before
            else "exists, and taugrid did not make it"
        )
        hint = f"give it another name, or first: taugrid cancel {ref.target} -n {ref.namespace}"
    raise AlreadyExists(
        f"{ref.shown} {wrong}; nothing was changed", reason=refused.reason, hint=hint
    ) from refused
