"""YAML as kubectl reads it, from people who may not mean well.

PyYAML's safe loader, with three changes. Plain scalars resolve as in Go's YAML 1.1 reader, which
kubectl uses: a date stays text, `1:30` stays text, `1e9` is a number, and a whole one. A key that
stands twice is an error (the later one would silently win). And the document's size, its depth, its
values and what they grow to through aliases are limited, before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from typing_extensions import override

from taugrid_ray.kinds.strict import shown

BYTES_MAX = 4 * 2**20
"""More than any file that etcd could store object by object."""
DEPTH_MAX = 100
NODES_MAX = 100_000
"""Values of one document, and of all documents together: some seconds of reading at most."""
DOCUMENTS_MAX = 2_000
_WHOLE_BELOW = 1e21


class _Loader(yaml.SafeLoader):
    """SafeLoader with the resolvers below, no duplicate keys and no more than NODES_MAX values."""

    _values = 0

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._values += 1
        if self._values > NODES_MAX:
            raise ValueError(f"it holds more than {NODES_MAX} values")
        return super().compose_node(parent, index)


_DROPPED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float", "tag:yaml.org,2002:int")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _DROPPED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(
        r"[-+]?(?:0b_*[01][01_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0o?_*[0-7][0-7_]*|0|[1-9][0-9_]*)\Z"
    ),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan)\Z"),
    list("-+0123456789."),
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool | None):
            raise _at(key_node, "a key must be plain text")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        text = text.replace(digits, f"0o{digits[1:]}")
    if len(digits) > 100:
        raise _at(node, "a number has more than 100 digits")
    return int(text, 0)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float | int:
    """Go writes whole numbers below 1e21 without a point into the JSON that it sends."""
    text = str(loader.construct_scalar(node))
    number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
    return int(number) if number.is_integer() and abs(number) < _WHOLE_BELOW else number


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def _at(node: yaml.Node, problem: str) -> ValueError:
    return ValueError(f"line {node.start_mark.line + 1}: {problem}")


def load_one(text: str) -> Any:
    """The only document of `text`. Raises ValueError with one line."""
    documents = list(load_documents(text))
    if len(documents) > 1:
        raise ValueError("it holds more than one document")
    return documents[0] if documents else None


def load_documents(text: str) -> Iterator[Any]:
    """Each document of `text`; empty ones are None. Raises ValueError with one line."""
    if len(text) > BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise ValueError(f"it is larger than {BYTES_MAX // 2**20} MiB")
    try:
        loader = _Loader(text)
        count = 0
        while loader.check_node():
            count += 1
            if count > DOCUMENTS_MAX:
                raise ValueError(f"it holds more than {DOCUMENTS_MAX} documents")
            node = loader.get_node()
            if node is None:
                continue
            _measure(node)
            yield loader.construct_document(node)
    except yaml.reader.ReaderError as refused:
        line = text.count("\n", 0, refused.position) + 1
        code = ord(text[refused.position])
        raise ValueError(
            f"line {line}: the character U+{code:04X} is not allowed in YAML; remove it"
        ) from refused
    except yaml.YAMLError as refused:
        raise ValueError(_one_line(refused)) from refused
    except RecursionError as refused:
        raise ValueError("it is nested too deeply") from refused


def _measure(root: yaml.Node) -> None:
    """Look at the nodes before anything is built: their keys, their depth, and their number as a
    tree, aliases expanded, since ten lines of YAML can mean billions.
    """
    sizes: dict[int, int] = {}
    on_path: set[int] = set()

    def size(node: yaml.Node, depth: int) -> int:
        if depth > DEPTH_MAX:
            raise _at(node, f"it is nested more than {DEPTH_MAX} levels deep")
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in on_path:
            raise _at(node, "an alias refers to something that contains it")
        if id(node) in sizes:
            return sizes[id(node)]
        on_path.add(id(node))
        below = node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            below = [part for pair in node.value for part in pair]
        sizes[id(node)] = 1 + sum(size(child, depth + 1) for child in below)
        on_path.discard(id(node))
        if sizes[id(node)] > NODES_MAX:
            raise _at(node, f"it grows to more than {NODES_MAX} values")
        return sizes[id(node)]

    size(root, 0)


def _check_keys(node: yaml.MappingNode) -> None:
    """Before keys are merged in: what a merge brings may be written anew."""
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen:
            raise _at(key, f"the key {shown(key.value)} stands twice in one mapping")
        seen.add((key.tag, key.value))


def _one_line(refused: yaml.YAMLError) -> str:
    mark = getattr(refused, "problem_mark", None)
    problem = str(getattr(refused, "problem", None) or "it cannot be read").splitlines()[0]
    if "'\\t'" in problem:
        problem = "a tab stands where only spaces may; write spaces"
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return where + "".join(c if c.isprintable() else "?" for c in problem)
