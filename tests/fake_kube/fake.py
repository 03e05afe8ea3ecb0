"""An API server in one class, in process: `FakeKube` speaks `KubeApi`.

It keeps what a client can notice: one resourceVersion for everything, uids, generations, conflicts,
finalizers, the status subresource, selectors, pages of one snapshot, watches with bookmarks and a
history that is compacted. tests/contract runs one suite against it, against it over HTTP and
against a real API server.

Time is the clock it was given. Nothing happens by itself: garbage is collected when a test says so,
and a quiet watch answers with a bookmark at once (or after `quiet_s` of real time) in place of
blocking, so that a simulator can step a reflector and see that there is nothing to do.

Objects are copied on their way in and out.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from taugrid_ray.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound, ServerFault
from taugrid_ray.kinds.resource import NAMESPACE, Obj, Resource
from taugrid_ray.kube.api import Change, Page, Patch, WatchEvent
from taugrid_ray.kube.clock import Clock
from taugrid_ray.kube.delta import Key, key_of

from . import patches, rules
from .applying import Owners, apply, take_over
from .clock import as_timestamp
from .faults import READS, Call, Fault, Faults, Write
from .history import History
from .selectors import field_match, label_match
from .writes import copied, grace_for_s, is_over, settled, stamp_new, typed


class FakeKube:
    """namespaces: those that exist; None where any may be named."""

    def __init__(
        self,
        clock: Clock,
        *,
        namespaces: Iterable[str] | None = None,
        validators: Iterable[rules.Validator] = rules.VALIDATORS,
        quiet_s: float = 0.0,
    ) -> None:
        self.clock = clock
        self.writes: list[Write] = []
        self.calls: Counter[tuple[str, str]] = Counter()
        """(verb, kind) -> how many, reads included."""
        self.on_call: Callable[[Call], None] | None = None
        """Sees each call before it is done; what it raises, the caller gets."""
        self.history = History(clock)
        self._validators = tuple(validators)
        self.quiet_s = quiet_s
        self._faults = Faults()
        self._changed = threading.Condition()
        self._objects: dict[Resource, dict[Key, Obj]] = {}
        self._owners: dict[tuple[Resource, Key, str], Owners] = {}
        self._pages: dict[str, tuple[list[Obj], str]] = {}
        self._uids = 0
        self._broken: list[BaseException] = []
        self._strict = namespaces is not None
        for name in namespaces or ():
            self.create(NAMESPACE, {"metadata": {"name": name}})
        self.writes.clear()

    # What tests do to it

    def fail(
        self,
        verb: str,
        kind: Resource | None,
        error: BaseException | Callable[[], BaseException],
        *,
        when: Literal["before", "after"] = "before",
        times: int = 1,
        match: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        """The next `times` calls of `verb` ("*": any) on `kind` (None: any) fail. With
        `when="after"` the deed is done and the answer lost."""
        make = error if callable(error) else lambda: error
        self._faults.waiting.append(Fault(make, verb, kind, when, times, match))

    def break_watches(self, error: BaseException) -> None:
        """All watches that are open now raise `error` at their next move."""
        with self._changed:
            self._broken.append(error)
            self._changed.notify_all()

    def compact(self) -> None:
        """Forget the history: a watch from before raises Gone, and so does a half-read list."""
        with self._changed:
            self.history.compact()
            self._pages.clear()
            self._changed.notify_all()

    def written(self, kind: Resource | None = None, verb: str = "") -> list[Write]:
        """Writes that took effect."""
        return [
            write
            for write in self.writes
            if write.outcome == "ok"
            and (kind is None or write.call.kind == kind)
            and verb in ("", write.verb)
        ]

    def objects(self, kind: Resource) -> list[Obj]:
        """All objects of a kind, without any fault, lag or record of the look."""
        with self._changed:
            found = self._objects.get(kind, {})
            return [copied(found[key]) for key in sorted(found)]

    def peek(self, kind: Resource) -> list[Obj]:
        """The objects themselves, not copies: for simulators, which look often and change
        nothing."""
        found = self._objects.get(kind, {})
        return [found[key] for key in sorted(found)]

    def collect_garbage(self) -> int:
        """Delete what has lost its owners, and finish foreground deletions. Says how many went."""
        from .garbage import collect

        with self._changed:
            return collect(self._objects, self._delete_now, self._keep, self._strict)

    # KubeApi: reads

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> Obj:
        with self._call(Call("get", kind, _key(kind, namespace, name))) as call:
            return copied(self._find(call))

    def list_page(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page_size: int = 500,
        page: str = "",
    ) -> Page:
        with self._call(Call("list", kind, Key(namespace or "", ""))):
            if page:
                if page not in self._pages:
                    raise Gone("The provided continue parameter is too old", reason="Expired")
                found, version = self._pages[page]
            else:
                match = self._match(kind, namespace, labels, fields)
                shown = self.history.shown(kind, self._objects.get(kind, {}))
                found = [shown[key] for key in sorted(shown) if match(shown[key])]
                version = str(self.history.visible(kind))
            rest, token = found[page_size:], ""
            if rest:
                token = f"{kind.plural}-{version}-{len(self._pages)}"
                self._pages[token] = rest, version
            return Page(tuple(copied(found[:page_size])), version, token)

    def watch(
        self,
        kind: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
    ) -> Iterator[WatchEvent]:
        with self._call(Call("watch", kind, Key(namespace or "", ""))):
            match = self._match(kind, namespace, labels, fields)
            at = int(resource_version)
            self.history.check(at)
            until_s = self.clock.monotonic_s() + timeout_s
            broken = len(self._broken)
        while self.clock.monotonic_s() < until_s:
            with self._changed:
                if len(self._broken) > broken:
                    raise self._broken[-1]
                event, at = self.history.next(kind, at, match)
                if event is None and self.quiet_s:
                    self._changed.wait(self.quiet_s)
                    if len(self._broken) > broken:
                        raise self._broken[-1]
                    event, at = self.history.next(kind, at, match)
            if event is None:
                mark = {"metadata": {"resourceVersion": str(at)}}
                event = WatchEvent(Change.BOOKMARK, typed(mark, kind))
            yield WatchEvent(event.change, copied(event.object))

    # KubeApi: writes

    def create(
        self,
        kind: Resource,
        obj: Obj,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        strict: bool = False,
        manager: str = "taugrid-ray",
    ) -> Obj:
        meta = obj.get("metadata") or {}
        where = namespace or meta.get("namespace") or ""
        key = Key(where if kind.namespaced else "", str(meta.get("name") or ""))
        call = Call("create", kind, key, body=obj, manager=manager, dry_run=dry_run)
        with self._call(call):
            return self._create(call, copied(obj))

    def patch(
        self,
        kind: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        how: Patch = Patch.MERGE,
        sub: str = "",
        manager: str = "taugrid-ray",
        force: bool = False,
        dry_run: bool = False,
    ) -> Obj:
        verb = "apply" if how is Patch.APPLY else "patch"
        key = _key(kind, namespace, name)
        with self._call(Call(verb, kind, key, sub, body, manager, dry_run)) as call:
            body = copied(body)
            if how is Patch.APPLY:
                return self._apply(call, body, force=force)
            live = self._find(call)
            if how is Patch.MERGE:
                new = patches.merge(copied(live), body)
            elif how is Patch.JSON:
                new = patches.json_patch(copied(live), body)
            else:
                raise ApiError(
                    "only built-in kinds know it", status=415, reason="UnsupportedMediaType"
                )
            return self._update(call, live, new)

    def replace(
        self, kind: Resource, obj: Obj, namespace: str | None = None, *, sub: str = ""
    ) -> Obj:
        meta = obj["metadata"]
        key = _key(kind, namespace or meta.get("namespace"), meta["name"])
        with self._call(Call("replace", kind, key, sub, obj, "taugrid-ray")) as call:
            live = self._find(call)
            if not meta.get("resourceVersion") and kind.kind not in rules.UNCONDITIONAL:
                raise rules.invalid(
                    kind, key.name, "metadata.resourceVersion: must be specified for an update"
                )
            if meta.get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
                raise Conflict("Precondition failed: UID in precondition", reason="Conflict")
            return self._update(call, live, copied(obj))

    def delete(
        self,
        kind: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        propagation: str = "Background",
        grace_s: int | None = None,
    ) -> None:
        key = _key(kind, namespace, name)
        options = {"uid": uid, "propagation": propagation, "grace_s": grace_s}
        with self._call(Call("delete", kind, key, body=options)) as call:
            live = self._find(call)
            if uid and live["metadata"]["uid"] != uid:
                raise Conflict(
                    f"the UID in the precondition ({uid}) does not match the UID in record",
                    reason="Conflict",
                )
            self._delete(kind, live, propagation, grace_s)

    # The mechanism

    @contextmanager
    def _call(self, call: Call) -> Iterator[Call]:
        with self._changed:
            self.calls[call.verb, call.kind.kind] += 1
            before = self.history.version
            try:
                if self.on_call is not None:
                    self.on_call(call)
                self._faults.raise_if_due(call, "before")
                yield call
            except BaseException as error:
                self._record(call, type(error).__name__)
                raise
            outcome = "dry" if call.dry_run else "ok"
            if self.history.version == before and outcome == "ok":
                outcome = "same"
            self._record(call, outcome)
            self._faults.raise_if_due(call, "after")

    def _record(self, call: Call, outcome: str) -> None:
        if call.verb not in READS:
            version = self.history.version if outcome == "ok" else 0
            self.writes.append(Write(call, self.clock.now_s(), outcome, version))

    def _match(
        self, kind: Resource, namespace: str | None, labels: str, fields: str
    ) -> Callable[[Obj], bool]:
        by_label, by_field = label_match(labels), field_match(fields, kind)

        def match(obj: Obj) -> bool:
            where = obj["metadata"].get("namespace")
            if kind.namespaced and namespace is not None and where != namespace:
                return False
            return by_label(obj) and by_field(obj)

        return match

    def _find(self, call: Call) -> Obj:
        if call.sub == "status" and not rules.has_status(call.kind):
            raise NotFound("the server could not find the requested resource", reason="NotFound")
        found = self._objects.get(call.kind, {}).get(call.key)
        if found is None:
            kind = call.kind
            where = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            raise NotFound(f'{where} "{call.key.name}" not found', reason="NotFound")
        return found

    def _create(self, call: Call, new: Obj) -> Obj:
        kind, meta = call.kind, new.setdefault("metadata", {})
        self._check_place(call, new)
        if meta.get("resourceVersion"):
            raise ServerFault("resourceVersion should not be set on objects to be created")
        key = Key(call.key.namespace, meta.get("name") or self._generated(meta))
        if key in self._objects.get(kind, {}):
            raise AlreadyExists(
                f'{kind.plural} "{key.name}" already exists', reason="AlreadyExists"
            )
        self._uids += 1
        stamp_new(kind, new, key, serial=self._uids, now_s=self.clock.now_s())
        for validate in self._validators:
            validate(kind, None, new)
        if not call.dry_run:
            owners = self._owners.setdefault((kind, key, ""), {})
            take_over({}, new, owners=owners, manager=_updater(call))
            self._keep(kind, key, new)
        return copied(new)

    def _check_place(self, call: Call, new: Obj) -> None:
        kind, meta = call.kind, new["metadata"]
        if rules.is_custom(kind) and not (new.get("apiVersion") and new.get("kind")):
            raise rules.bad_request("Object 'Kind' or 'apiVersion' is missing")
        if new.get("apiVersion", kind.api_version) != kind.api_version or (
            new.get("kind", kind.kind) != kind.kind
        ):
            raise rules.bad_request("the object provided is not of the kind of the URL")
        typed(new, kind)
        if kind.namespaced:
            if not call.key.namespace:
                raise rules.bad_request("an empty namespace may not be set during creation")
            if meta.setdefault("namespace", call.key.namespace) != call.key.namespace:
                raise rules.bad_request("the namespace of the object does not match the URL")
            spaces = self._objects.get(NAMESPACE, {})
            if self._strict and Key("", call.key.namespace) not in spaces:
                raise NotFound(f'namespaces "{call.key.namespace}" not found', reason="NotFound")

    def _generated(self, meta: Obj) -> str:
        prefix = meta.get("generateName")
        if not prefix:
            raise rules.bad_request("name or generateName is required")
        return f"{prefix}{self._uids + 1:05d}"

    def _apply(self, call: Call, config: Obj, *, force: bool) -> Obj:
        kind, key = call.kind, call.key
        if not (config.get("apiVersion") and config.get("kind")):
            raise rules.bad_request("apiVersion and kind must be set in an apply")
        config.setdefault("metadata", {}).setdefault("name", key.name)
        if kind.namespaced:
            config["metadata"].setdefault("namespace", key.namespace)
        live = self._objects.get(kind, {}).get(key)
        if live is None:
            if call.sub:
                self._find(call)
            created = self._create(call, config)
            if not call.dry_run:
                owners = self._owners[kind, key, ""] = {}
                apply(copied(config), config, owners=owners, manager=call.manager, force=force)
            return created
        self._find(call)
        owners = {name: set(paths) for name, paths in self._owned(kind, key, call.sub).items()}
        new = apply(copied(live), config, owners=owners, manager=call.manager, force=force)
        kept = self._update(call, live, new)
        if not call.dry_run:
            self._owners[kind, key, call.sub] = owners
        return kept

    def _owned(self, kind: Resource, key: Key, sub: str) -> Owners:
        return self._owners.setdefault((kind, key, sub), {})

    def _update(self, call: Call, live: Obj, new: Obj) -> Obj:
        kind, key = call.kind, call.key
        old_meta, meta = live["metadata"], new.get("metadata") or {}
        if meta.get("name", key.name) != key.name or (
            meta.get("namespace", key.namespace) != key.namespace
        ):
            raise rules.bad_request("the name of the object does not match the URL")
        if meta.get("resourceVersion", old_meta["resourceVersion"]) != old_meta["resourceVersion"]:
            raise Conflict("the object has been modified", reason="Conflict")
        if meta.get("uid", old_meta["uid"]) != old_meta["uid"]:
            raise rules.invalid(kind, key.name, "metadata.uid: field is immutable")
        new = settled(call, live, new)
        if new == live:
            return copied(live)
        for validate in self._validators:
            validate(kind, live, new)
        if call.dry_run:
            return copied(new)
        if call.verb != "apply":
            owners = self._owned(kind, key, call.sub)
            take_over(live, new, owners=owners, manager=_updater(call))
        if is_over(new):
            self._delete_now(kind, key)
            return copied(new)
        self._keep(kind, key, new)
        return copied(new)

    def _delete(self, kind: Resource, live: Obj, propagation: str, grace_s: int | None) -> None:
        meta, new = live["metadata"], copied(live)
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(propagation)
        if finalizer and "deletionTimestamp" not in meta:
            new["metadata"].setdefault("finalizers", []).append(finalizer)
        wait_s = grace_for_s(kind, live, grace_s)
        if not new["metadata"].get("finalizers") and not wait_s:
            self._delete_now(kind, key_of(live))
            return
        if "deletionTimestamp" in meta and wait_s >= meta.get("deletionGracePeriodSeconds", 0):
            return
        new["metadata"]["deletionTimestamp"] = as_timestamp(self.clock.now_s() + wait_s)
        new["metadata"]["deletionGracePeriodSeconds"] = wait_s
        if rules.has_generation(kind):
            new["metadata"]["generation"] = meta.get("generation", 0) + 1
        self._keep(kind, key_of(live), new)

    def _delete_now(self, kind: Resource, key: Key) -> None:
        gone = self._objects[kind].pop(key)
        self._owners = {at: owners for at, owners in self._owners.items() if at[:2] != (kind, key)}
        last = copied(gone)
        last["metadata"]["resourceVersion"] = str(self.history.version + 1)
        self.history.add(kind, Change.DELETED, before=gone, after=last)
        self._changed.notify_all()

    def _keep(self, kind: Resource, key: Key, new: Obj) -> None:
        known = self._objects.setdefault(kind, {})
        before = known.get(key)
        new["metadata"]["resourceVersion"] = str(self.history.version + 1)
        known[key] = new = copied(new)
        change = Change.ADDED if before is None else Change.MODIFIED
        self.history.add(kind, change, before=before, after=new)
        self._changed.notify_all()


def _updater(call: Call) -> str:
    """Who writes without apply is another owner than who applies under the same name."""
    return f"{call.manager} using Update"


def _key(kind: Resource, namespace: str | None, name: str) -> Key:
    if kind.namespaced and not namespace:
        raise rules.bad_request(f"{kind.kind} {name}: a namespace is needed")
    return Key((namespace or "") if kind.namespaced else "", name)
