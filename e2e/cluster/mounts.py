"""Unmount whatever is still mounted below a folder, so that removing the folder cannot reach
through a mount."""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2e.cluster.settings import ClusterError

MOUNTS = Path("/proc/self/mountinfo")


def below(mountinfo: str, folder: Path) -> list[str]:
    """The mount points below `folder`, the deepest first, from the text of mountinfo."""
    points = [_unescaped(line.split()[4]) for line in mountinfo.splitlines()]
    inside = [point for point in points if Path(point).is_relative_to(folder)]
    return sorted(inside, key=lambda point: point.count("/"), reverse=True)


def unmount_below(folder: Path) -> None:
    for point in below(MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"), folder):
        done = subprocess.run(["umount", point], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{point} cannot be unmounted: {done.stderr.strip()}")


def _unescaped(point: str) -> str:
    """The kernel writes space, tab, newline and backslash as octal."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, char)
    return point
