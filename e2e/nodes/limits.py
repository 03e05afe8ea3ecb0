"""A container's limits as programs read them: the files of a cgroup, version 2. Pure.

Ray sizes its object store and counts its CPUs by these files. On process nodes the limits are shown
and not enforced: a program that takes more than its share gets it. Usage is not measured: it reads
as 0, so that what is free is what the limit says, not what other programs of this machine leave.
"""

from __future__ import annotations

from taugrid_ray import quantity
from taugrid_ray.kinds import fields
from taugrid_ray.kinds.resource import Obj

PLACE = "/sys/fs/cgroup"
PERIOD_US = 100_000


def cgroup_files(container: Obj) -> dict[str, str]:
    """Name to content. Without a limit a file says `max`, as the kernel's does."""
    limits = fields.mapping(container, "resources", "limits")
    cpu, memory = limits.get("cpu"), limits.get("memory")
    quota = "max" if cpu is None else str(int(quantity.parse(cpu) * PERIOD_US))
    amount = "max" if memory is None else str(int(quantity.parse(memory)))
    return {
        "cpu.max": f"{quota} {PERIOD_US}\n",
        "memory.max": f"{amount}\n",
        "memory.current": "0\n",
        "memory.stat": "anon 0\nshmem 0\nactive_file 0\ninactive_file 0\n",
    }
