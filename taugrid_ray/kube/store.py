"""The latest objects of one kind, as parsed values, with indexes.

One thread writes and reads (the controller's loop), so there is no lock. Values are frozen; nobody
changes what came out of here.

Our own writes are read at once: `accept` takes the answer of a create or patch over before any
watch shows it, and `forget` takes an object away that we deleted ourselves. Late events cannot undo
that: a lower resourceVersion loses against a higher one, and a forgotten uid stays away until the
watch says that it is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic

from taugrid_ray.kinds.resource import Obj, Resource
from taugrid_ray.kube.delta import Delta, Key, Listed, T, key_of, version_of

Index = Callable[[T], Iterable[str]]
"""Under which words a value is found; none for "not in this index"."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    value: T
    uid: str
    version: int


class Store(Generic[T]):
    """Objects of `kind`, found by key, or by a word of one of the `indexes`.

    parse: the same as the reflector's; `accept` needs it.
    """

    def __init__(
        self,
        kind: Resource,
        parse: Callable[[Obj], T | None],
        *,
        indexes: Mapping[str, Index[T]] | None = None,
    ) -> None:
        self.kind = kind
        self.synced = False
        """A first list is complete: from now on "not here" means "does not exist"."""
        self._parse = parse
        self._entries: dict[Key, _Entry[T]] = {}
        self._keys: dict[str, Key] = {}
        """uid -> where it is."""
        self._forgotten: dict[str, Key] = {}
        self._indexes = dict(indexes or {})
        # Insertion-ordered dicts in place of sets: what is found comes in a repeatable order.
        self._words: dict[str, defaultdict[str, dict[Key, None]]] = {
            name: defaultdict(dict) for name in self._indexes
        }

    # Reading

    def get(self, key: Key) -> T | None:
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    def by(self, index: str, word: str) -> tuple[T, ...]:
        keys = self._words[index].get(word, ())
        return tuple(self._entries[key].value for key in keys)

    def words(self, index: str) -> tuple[str, ...]:
        """All words of an index under which something is found."""
        return tuple(self._words[index])

    def values(self) -> Iterator[T]:
        return (entry.value for entry in self._entries.values())

    def keys(self) -> tuple[Key, ...]:
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    # Writing: what the reflector says

    def apply(self, change: Delta[T] | Listed) -> tuple[Delta[T], ...]:
        """Take a change over. Answers what it changed here: nothing where we knew better."""
        if isinstance(change, Listed):
            return self._complete(change)
        entry = self._entries.get(change.key)
        if change.new is None:
            self._forgotten.pop(change.uid, None)
            if entry is None or entry.uid != change.uid or entry.version > change.resource_version:
                return ()
            return self._put(change.key, None, change.resource_version)
        if change.uid in self._forgotten:
            return ()
        if entry is not None and entry.version >= change.resource_version:
            return ()
        return self._put(change.key, _Entry(change.new, change.uid, change.resource_version))

    # Writing: what we did ourselves

    def accept(self, obj: Obj) -> tuple[Delta[T], ...]:
        """Take over the answer of our own create, patch or replace.

        Only for objects that the reflector's selectors select.
        """
        key, uid, version = key_of(obj), obj["metadata"]["uid"], version_of(obj)
        entry = self._entries.get(key)
        if uid in self._forgotten or (entry is not None and entry.version >= version):
            return ()
        value = self._parse(obj)
        if value is None:
            return self._put(key, None, version)
        return self._put(key, _Entry(value, uid, version))

    def forget(self, uid: str) -> tuple[Delta[T], ...]:
        """After our own delete has worked."""
        key = self._keys.get(uid)
        if key is None:
            return ()
        self._forgotten[uid] = key
        return self._put(key, None, self._entries[key].version)

    # Both

    def _complete(self, listed: Listed) -> tuple[Delta[T], ...]:
        """Drop what we took over ourselves and the list no longer held."""
        self.synced = True
        dropped: list[Delta[T]] = []
        for key, entry in list(self._entries.items()):
            if key not in listed.keys and entry.version <= listed.resource_version:
                dropped += self._put(key, None, listed.resource_version)
        self._forgotten = {uid: key for uid, key in self._forgotten.items() if key in listed.keys}
        return tuple(dropped)

    def _put(self, key: Key, now: _Entry[T] | None, version: int = 0) -> tuple[Delta[T], ...]:
        before = self._entries.get(key)
        if before is not None:
            self._unindex(key, before.value)
            self._keys.pop(before.uid, None)
        if now is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = now
            self._keys[now.uid] = key
            self._index(key, now.value)
        old = before.value if before is not None else None
        new = now.value if now is not None else None
        some = now or before
        if some is None or old == new:
            return ()
        return (Delta(self.kind, key, some.uid, old, new, now.version if now else version),)

    def _index(self, key: Key, value: T) -> None:
        for name, words_of in self._indexes.items():
            for word in words_of(value):
                self._words[name][word][key] = None

    def _unindex(self, key: Key, value: T) -> None:
        for name, words_of in self._indexes.items():
            for word in words_of(value):
                keys = self._words[name].get(word)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del self._words[name][word]
