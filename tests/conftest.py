"""What all tests share: in CI the drawn examples are the same each time, so that a change is judged
by what it changes; elsewhere they are new ones, and look further."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
