"""What this machine must be able to do, and what an agent that died left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from e2e.nodes.container import NODES_MARKER

COMMANDS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "sleep": "coreutils",
}
PROC = Path("/proc")


def why_not() -> str:
    """Why process nodes cannot run here, as a sentence; "" where they can."""
    if not sys.platform.startswith("linux"):
        return "process nodes need Linux"
    if os.geteuid() != 0:
        return "process nodes need root, to make network namespaces"
    missing = [
        f"{name} ({package})" for name, package in COMMANDS.items() if not shutil.which(name)
    ]
    if missing:
        return f"process nodes need the commands {', '.join(missing)}"
    return _why_no_namespaces()


def _why_no_namespaces() -> str:
    """Try what every container needs: namespaces, and an overlay of this machine's root."""
    script = (
        "mount -t tmpfs trial /mnt && mkdir /mnt/upper /mnt/work /mnt/root && "
        "mount -t overlay trial -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root"
    )
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines()
    return f"process nodes need namespaces and overlay mounts: {said[-1] if said else 'refused'}"


def orphans(prefix: str) -> list[int]:
    """Processes of pods whose agent is gone, by the marker in their environment."""
    marker = f"{NODES_MARKER}={prefix}".encode()
    return [
        int(each.name)
        for each in PROC.iterdir()
        if each.name.isdigit() and int(each.name) != os.getpid() and marker in _environment(each)
    ]


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def clean_up(prefix: str, run_folder: Path) -> int:
    """End what a dead agent of the same cluster left; how many processes that were.

    The kernel has ended its pods already (see the package's docstring); this is for what may have
    slipped through, and for its files.
    """
    found = orphans(prefix)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    shutil.rmtree(run_folder, ignore_errors=True)
    run_folder.mkdir(parents=True)
    return len(found)
