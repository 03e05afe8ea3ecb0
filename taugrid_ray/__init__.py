"""taugrid-ray: when may a Ray job really start, or grow?"""

__version__ = "0.1.0"
