"""Which clusters are on this machine: by their folders, and by processes and links whose folder
is gone."""

from __future__ import annotations

from pathlib import Path

from e2e.cluster.processes import observe_all


def every_folder(root: Path) -> list[Path]:
    """The folders of all clusters below `root`, those included of which only processes are left."""
    there = {each for each in root.iterdir() if each.is_dir()} if root.is_dir() else set()
    marked = {Path(each.folder) for each in observe_all() if each.folder}
    return sorted(there | {each for each in marked if each.parent == root})
