"""`python -m e2e list` and `python -m e2e run NAME...`."""

from __future__ import annotations

import json
import os
import sys

import click

from e2e.cluster.commandline import reported
from e2e.scenarios.registry import Scenario, scenarios
from e2e.scenarios.runner import FAILED, Result, run_all


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def list_scenarios(as_json: bool) -> None:
    """Every scenario: name, nodes, whether `make test` runs it, what it proves."""
    known = scenarios().values()
    if as_json:
        rows = [
            {"name": s.name, "nodes": s.nodes.value, "inTest": s.in_test, "says": s.says}
            for s in known
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for s in known:
        click.echo(f"{s.name:40} {s.nodes.value:8} {'test' if s.in_test else '':5} {s.says}")


def _shard(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise click.BadParameter("write it as 1/4: which part, of how many")
    return int(number), int(of)


def _choose(names: tuple[str, ...], everything: bool, of_test: bool, shard: str) -> list[Scenario]:
    known = scenarios()
    unknown = [n for n in names if n not in known]
    if unknown:
        raise click.UsageError(f"no such scenario: {', '.join(unknown)}; see: python -m e2e list")
    chosen = [known[n] for n in dict.fromkeys(names)]
    if everything:
        chosen = list(known.values())
    elif of_test:
        chosen = [s for s in known.values() if s.in_test]
    if not chosen:
        raise click.UsageError("name a scenario, or --all or --test; see: python -m e2e list")
    if shard:
        number, of = _shard(shard)
        chosen = chosen[number - 1 :: of]
    return chosen


@click.command("run")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every scenario.")
@click.option("--test", "of_test", is_flag=True, help="Those that `make test` runs.")
@click.option("--shard", default="", metavar="I/N", help="Every N-th of them, from the I-th.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a scenario, a line each.")
def run(names: tuple[str, ...], everything: bool, of_test: bool, shard: str, as_json: bool) -> None:
    """Run scenarios, each kind of nodes on a cluster of its own that is taken down afterwards."""
    chosen = _choose(names, everything, of_test, shard)
    results: list[Result] = []

    def progress(line: str) -> None:
        click.echo(line, err=True)

    def done(result: Result) -> None:
        results.append(result)
        if as_json:
            click.echo(json.dumps(result.as_json()))
        else:
            _print(result)

    with reported():
        run_all(chosen, name=f"run-{os.getpid()}", progress=progress, done=done)
    failed = [r for r in results if not r.passed and not r.not_run]
    not_run = [r for r in results if r.not_run]
    passed = len(results) - len(failed) - len(not_run)
    click.echo(f"{passed} passed, {len(failed)} failed, {len(not_run)} skipped", err=as_json)
    # What cannot run here is counted; in CI it is a failure, since nobody would see the count.
    sys.exit(1 if failed or (not_run and os.environ.get("CI")) else 0)


def _print(result: Result) -> None:
    word = "NOT RUN" if result.not_run else "passed" if result.passed else "FAILED"
    click.echo(f"{word:8} {result.scenario.name} ({result.seconds:.1f} s)")
    if result.not_run:
        click.echo(f"         {result.not_run}")
    if result.passed or result.not_run:
        return
    for at_s, what in result.timeline:
        click.echo(f"  {at_s:7.2f} s  {what}")
    click.echo(f"  logs and watch record: {FAILED / result.scenario.name}")
    if result.why:
        click.echo(f"  why: {result.why}")
    for what in result.leftovers:
        click.echo(f"  left behind: {what}")
    for finding in result.rules:
        for breach in finding.breaches:
            click.echo(f"  {finding.rule} ({finding.says}): {breach}")
