"""`python -m e2e bench admission`."""

from __future__ import annotations

import dataclasses
import json

import click

from e2e.bench.admission import VARIANTS, run
from e2e.bench.measure import GOALS, Figures, median, ratios
from e2e.cluster.commandline import reported

SCHEMA_VERSION = "v1alpha1"


@click.group()
def bench() -> None:
    """Measure; the figures of one run are comparable with each other only."""


@bench.command()
@click.option("--gangs", default=600, show_default=True, type=click.IntRange(1, 5000))
@click.option("--rounds", default=1, show_default=True, type=click.IntRange(1, 20))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def admission(gangs: int, rounds: int, as_json: bool) -> None:
    """Many three-pod Jobs at once: no check, one that says yes at once, Kueue's own, ours."""
    with reported():
        seen: dict[str, list[Figures]] = {variant: [] for variant in VARIANTS}
        for turn in range(rounds):
            # Each round begins with another variant, so that none always has the warmest caches.
            for variant in (*VARIANTS[turn % 4 :], *VARIANTS[: turn % 4]):
                found = run(variant, gangs, progress=lambda line: click.echo(line, err=True))
                seen[variant].append(found)
                click.echo(f"{variant}: {_line(found)}", err=True)
        middle = {variant: median(of) for variant, of in seen.items()}
        found_ratios = ratios(middle)
    if as_json:
        out = {
            "schemaVersion": SCHEMA_VERSION,
            "gangs": gangs,
            "rounds": rounds,
            "variants": {
                name: [_rounded(dataclasses.asdict(one)) for one in of] for name, of in seen.items()
            },
            "ratios": _rounded(found_ratios),
            "goals": GOALS,
        }
        click.echo(json.dumps(out, indent=1))
        return
    for name, of in middle.items():
        click.echo(f"{name:8} {_line(of)}")
    for name, value in found_ratios.items():
        met = "met" if value <= GOALS[name] else "not met"
        click.echo(f"{name:22} {value:5.2f}  goal {GOALS[name]:.2f}: {met}")


def _line(of: Figures) -> str:
    return (
        f"last admitted after {of.last_admitted_s:5.1f} s, "
        f"check p50 {of.check_p50_s:5.2f} s, p99 {of.check_p99_s:5.2f} s"
    )


def _rounded(of: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in of.items()}
