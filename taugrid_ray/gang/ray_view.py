"""What Ray will believe one pod has.

`ray start` gets numbers from the group's `resources`, else from `rayStartParams`, else KubeRay
reads the Ray container: CPU and memory from its limits (CPU from its request where there is no
limit), GPUs from any limit whose name ends in `gpu` or is an NVIDIA MIG slice, and the first of two
other accelerators that it knows by name. Quota and capacity always follow the pod; this is shown
beside it, and only maps a program's demand to groups.

`rayStartParams.resources` is JSON that goes through a shell: what Ray gets is what bash leaves of
it. So the value is read the way bash reads it, first.

Source: kuberay 1.6.2 ray-operator/controllers/ray/common/pod.go; ray 2.56 scripts.py.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from fractions import Fraction

from taugrid_ray.gang.model import Note, NoteCode
from taugrid_ray.kinds.pod_spec import Container
from taugrid_ray.kinds.strict import Field, shown
from taugrid_ray.quantity import Resources, parse, round_up

_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
_WORDS = {"cpu": "CPU", "memory": "memory"}
_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
RIGHT_SPELLING = """write resources: '"{\\"NAME\\": 1}"'"""


def is_gpu(resource: str) -> bool:
    """KubeRay's rule for telling Ray about GPUs. It decides nothing about what is asked for."""
    return resource.endswith("gpu") or _MIG.search(resource) is not None


def ray_resources(group: Field, container: Container) -> dict[str, Fraction]:
    """CPU, GPU, memory and custom resources of one pod, as Ray will see them."""
    params = group["rayStartParams"].string_map()
    found: dict[str, Fraction] = {}
    for name, number in _from_container(container).items():
        found[name] = round_up(number, 1)
    for flag, name in (("num-cpus", "CPU"), ("num-gpus", "GPU"), ("memory", "memory")):
        if params.get(flag):
            found[name] = _number(group["rayStartParams"][flag])
    if params.get("resources"):
        found.update(custom_resources(group["rayStartParams"]["resources"]))
    for name, entry in group["resources"].entries():
        found[_word(name)] = _number(entry)
    if not set(_ACCELERATORS.values()) & set(found):
        found.update(_accelerator(container))
    return {name: amount for name, amount in found.items() if amount}


def _word(name: str) -> str:
    return "GPU" if is_gpu(name.lower()) else _WORDS.get(name.lower(), name)


def _accelerator(container: Container) -> dict[str, Fraction]:
    limits = sorted(name for name, amount in container.limits.items() if amount)
    known = [name for name in limits if name in _ACCELERATORS]
    return {_ACCELERATORS[name]: container.limits[name] for name in known[:1]}


def _from_container(container: Container) -> dict[str, Fraction]:
    cpu = container.limits.get("cpu") or container.requests.get("cpu") or Fraction(0)
    gpus = [a for name, a in sorted(container.limits.items()) if is_gpu(name) and a]
    memory = container.limits.get("memory", Fraction(0))
    return {"CPU": cpu, "GPU": gpus[0] if gpus else Fraction(0), "memory": memory}


def _number(entry: Field) -> Fraction:
    try:
        return parse(entry.text())
    except ValueError as refused:
        raise entry.wrong(str(refused)) from refused


def custom_resources(entry: Field) -> dict[str, Fraction]:
    """The JSON of `rayStartParams.resources`. Raises FieldError where no reading makes sense."""
    written = entry.text()
    for candidate in _readings(written):
        try:
            loaded = json.loads(candidate, parse_float=Fraction, parse_int=Fraction)
        except (ValueError, RecursionError):
            continue
        if isinstance(loaded, dict) and all(isinstance(v, Fraction) for v in loaded.values()):
            return loaded
    raise entry.wrong(
        f"{shown(written)} is not a JSON object of numbers in a spelling that survives the shell; "
        f"{RIGHT_SPELLING}"
    )


def _readings(written: str) -> Iterator[str]:
    through_shell = after_shell(written)
    if through_shell is not None:
        yield through_shell
    yield written
    yield written.strip("'\"` ").replace("\\", "")


def after_shell(written: str) -> str | None:
    """What bash hands to `ray start`; None where it falls into several words or has open quotes."""
    try:
        words = shlex.split(f"--resources={written}", posix=True)
    except ValueError:
        return None
    return words[0].removeprefix("--resources=") if len(words) == 1 else None


def spelling_notes(group: Field) -> Iterator[Note]:
    """Warn where the JSON can be read but bash will spoil it."""
    entry = group["rayStartParams"]["resources"]
    if not entry.text():
        return
    through_shell = after_shell(entry.text())
    try:
        json.loads(through_shell or "")
    except ValueError:
        yield Note(
            NoteCode.RAY_RESOURCES_SPELLING,
            f"{shown(entry.text())} loses its quotes in the shell and `ray start` will refuse it; "
            f"{RIGHT_SPELLING}",
            entry.path,
        )


def view_notes(group: Field, name: str, per_pod: Resources, ray: Resources) -> Iterator[Note]:
    """Warn where Ray was told something else than the pod has.

    Fewer CPUs than the pod (`num-cpus: 0` on the head) are a choice, and common.
    """
    said: list[str] = []
    gpus = sum((a for n, a in per_pod.items() if is_gpu(n)), Fraction(0))
    told = group["rayStartParams"]["num-gpus"].exists or any(
        _word(name) == "GPU" for name in group["resources"].mapping()
    )
    if told and ray.get("GPU", Fraction(0)) != gpus:
        said.append(f"{_n(ray.get('GPU'))} GPUs where the pod asks for {_n(gpus)}")
    cpus = round_up(per_pod.get("cpu", Fraction(0)), 1)
    if cpus and ray.get("CPU", Fraction(0)) > cpus and group["rayStartParams"]["num-cpus"].exists:
        said.append(f"{_n(ray.get('CPU'))} CPUs where the pod asks for {_n(cpus)}")
    if said:
        yield Note(
            NoteCode.RAY_VIEW_DIFFERS,
            f"Ray is told that a pod of {shown(name)} has {' and '.join(said)}; "
            "quota and capacity follow the pod",
            group["rayStartParams"].path,
        )
    memory = group["rayStartParams"]["memory"]
    if memory.text() and not memory.text().isdigit():
        yield Note(
            NoteCode.RAY_VIEW_DIFFERS,
            f"`ray start --memory` takes bytes as a plain number, not {shown(memory.text())}; "
            f"write '{_n(round_up(_number(memory), 1))}'",
            memory.path,
        )


def _n(amount: Fraction | None) -> str:
    return str(amount if amount is not None else 0)
