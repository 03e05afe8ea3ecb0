"""A pretend API server for tests; see `fake.py`, and `face.py` for it over HTTP."""

from .clock import ManualClock
from .face import Face, Trouble
from .fake import FakeKube
from .faults import Call, Write

__all__ = ["Call", "Face", "FakeKube", "ManualClock", "Trouble", "Write"]
