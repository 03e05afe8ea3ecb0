"""Our own programs beside the control plane: what `python -m e2e up` starts after it."""

from __future__ import annotations

from e2e.cluster.settings import ExtraPart


def default_extras() -> tuple[ExtraPart, ...]:
    return ()
