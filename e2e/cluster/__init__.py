"""Start, find and take down a local cluster of real parts."""

from e2e.cluster.cluster import Cluster, take_down
from e2e.cluster.network import Network
from e2e.cluster.settings import Audit, ClusterError, ExtraPart, Nodes, Settings

__all__ = [
    "Audit",
    "Cluster",
    "ClusterError",
    "ExtraPart",
    "Network",
    "Nodes",
    "Settings",
    "take_down",
]
