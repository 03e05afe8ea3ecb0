"""The annotations by which whoever makes a Node tells what it is to be."""

from __future__ import annotations

NODE = "e2e.taugrid.io/node"
"""`process`: this program serves the node."""
PROCESS = "process"
READY_AFTER = "e2e.taugrid.io/ready-after-seconds"
"""How long after its creation the node boots; `never` for one that never does. Default: 0."""
RESOURCES = "e2e.taugrid.io/resources"
"""What the node offers, as JSON, where its status says nothing."""
ADVERTISE_AFTER = "e2e.taugrid.io/advertise-after"
"""JSON `{"nvidia.com/gpu": {"amount": "8", "seconds": 20}}`: offered that long after the node is
up, as by a device plug-in that is slow to start; `"seconds": "never"` for one that never does."""
