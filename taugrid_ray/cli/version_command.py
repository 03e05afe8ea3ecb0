"""`taugrid version`."""

from __future__ import annotations

import click

import taugrid_ray
from taugrid_ray.cli.options import output_option
from taugrid_ray.cli.screen import show, show_obj


@click.command()
@output_option("table", "json")
def command(output: str) -> None:
    """Print the version."""
    import platform

    if output == "json":
        python = platform.python_version()
        show_obj({"version": taugrid_ray.__version__, "python": python}, "json")
    else:
        show(f"taugrid {taugrid_ray.__version__}")
