"""What must be created together: a Job, RayJob or RayCluster manifest as a `Gang`.

Two views stand side by side in every pod group. `count` and `per_pod` are the pods that will exist:
KubeRay clamps replicas and adds containers, the API server fills in requests. `counted` is what
Kueue 0.19.2 writes into the Workload's pod sets, and so what quota and capacity are asked for.
Mostly they agree; where they do not, a note says so.

    model        the values: Gang, PodGroup, Part, Note
    manifests    YAML text -> objects; which of them are gangs, which are not, which are wrong
    extract      one object -> Gang
    ray, job     the shapes of the kinds
    pods         one pod: hidden containers, defaults, sums, and where each number came from
    ray_view     what Ray will believe a pod has
    rules        what KubeRay and Kueue would refuse later, refused now
"""

from taugrid_ray.gang.extract import gang_of
from taugrid_ray.gang.manifests import Document, Manifests, gangs_in, load_manifests
from taugrid_ray.gang.model import Counted, Gang, Note, NoteCode, Part, PodGroup, Role, Source

__all__ = [
    "Counted",
    "Document",
    "Gang",
    "Manifests",
    "Note",
    "NoteCode",
    "Part",
    "PodGroup",
    "Role",
    "Source",
    "gang_of",
    "gangs_in",
    "load_manifests",
]
