"""docs/troubleshooting.md: the sentences in it are written by the code.

`python -m tests.docs.page` fills them in (behind `make docs`); everything around them is written by
hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from taugrid_ray.reasons import Reason
from tests.docs.examples import said

FILE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
_SECTION = re.compile(r"(?m)^(## (\w+)\n\n```text\n)(?:.*\n)*?(```\n)")


def filled(page: str, sentences: Mapping[Reason, tuple[str, ...]]) -> str:
    """`page` with the block of each reason's section holding that reason's sentences, a line
    each."""

    def fill(found: re.Match[str]) -> str:
        lines = "".join(f"{line}\n" for line in sentences[Reason(found[2])])
        return f"{found[1]}{lines}{found[3]}"

    return _SECTION.sub(fill, page)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8"), said()), encoding="utf-8")
