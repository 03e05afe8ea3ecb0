"""The cache's key, Go's version, and how a build tells how far it is."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from e2e import build, compiling, golang, manifests
from e2e.cluster import console


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the two module folders that a test may change."""
    for module in build.MODULES:
        shutil.copytree(build.HERE / module.folder, tmp_path / module.folder)
    return tmp_path


def test_the_key_is_the_same_for_the_same_inputs(sources: Path) -> None:
    assert build.inputs_hash(sources) == build.inputs_hash()


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
@pytest.mark.parametrize("module", ["controlplane", "kuberay"])
def test_the_key_follows_every_module_file(sources: Path, module: str, file: str) -> None:
    before = build.inputs_hash(sources)
    changed = sources / module / file
    changed.write_text(changed.read_text() + "\n")
    assert build.inputs_hash(sources) != before


def test_the_key_follows_machine_and_flags(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = build.inputs_hash(sources, machine="x86_64")
    assert build.inputs_hash(sources, machine="aarch64") != one
    monkeypatch.setattr(build, "FLAGS", ("-trimpath", "-race"))
    assert build.inputs_hash(sources, machine="x86_64") != one


@pytest.fixture
def without_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "go_on_path", lambda: None)


@pytest.mark.usefixtures("without_go")
def test_an_entry_is_found_without_any_go(tmp_path: Path) -> None:
    entry = tmp_path / build.entry_name(build.inputs_hash(), "1.26.6")
    assert build.find_built(tmp_path) is None
    entry.mkdir()
    entry.with_name(f"{entry.name}.lock").touch()
    found = build.find_built(tmp_path)
    assert found is not None
    assert found.folder == entry


def test_an_entry_of_another_go_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / build.entry_name(build.inputs_hash(), "1.26.6")).mkdir()
    monkeypatch.setattr(build, "go_on_path", lambda: golang.Go("go", "1.27.0"))
    assert build.find_built(tmp_path) is None


@pytest.mark.usefixtures("without_go")
def test_an_unfinished_entry_is_no_entry(tmp_path: Path) -> None:
    name = build.entry_name(build.inputs_hash(), "1.26.6")
    (tmp_path / f"{build._unfinished(tmp_path / name)}abc").mkdir()
    assert build.find_built(tmp_path) is None


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAUGRID_RAY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/x")
    assert build.cache_folder() == Path("/var/tmp/x/taugrid-ray")
    monkeypatch.setenv("TAUGRID_RAY_CACHE", "/var/tmp/y")
    assert build.cache_folder() == Path("/var/tmp/y")


@pytest.mark.parametrize(
    ("printed", "version", "enough"),
    [
        pytest.param("go version go1.26.8 linux/amd64", "1.26.8", True, id="a release"),
        pytest.param("go version go1.26 linux/arm64", "1.26", True, id="a first release"),
        pytest.param("go version go1.27rc1 linux/amd64", "1.27rc1", True, id="a candidate"),
        pytest.param("go version go1.25.9 linux/amd64", "1.25.9", False, id="too old"),
        pytest.param("go version go2.0.0 linux/amd64", "2.0.0", True, id="the next major"),
        pytest.param("go version devel +abc linux/amd64", "", False, id="a development build"),
        pytest.param("gccgo 13", "", False, id="not Go's own"),
    ],
)
def test_go_versions(printed: str, version: str, enough: bool) -> None:
    assert golang.parse_version(printed) == version
    assert golang.is_new_enough(version) is enough


def test_go_gets_none_of_the_callers_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOWORK", "/somewhere/go.work")
    environment = golang.environment()
    assert environment["GOFLAGS"] == "-buildvcs=false"
    assert environment["GOWORK"] == "off"
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["CGO_ENABLED"] == "0"


def stand_in_go(tmp_path: Path, script: str) -> compiling.Go:
    """A program in Go's place, so that what it prints is known."""
    command = tmp_path / "go"
    command.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    command.chmod(0o755)
    return compiling.Go(str(command), "1.26.0")


def test_a_failed_build_shows_the_last_lines_and_the_log(tmp_path: Path) -> None:
    go = stand_in_go(
        tmp_path, 'for i in range(40): print(f"pkg/a{i}.go: broken", file=sys.stderr)\nsys.exit(2)'
    )
    log = tmp_path / "build.log"
    written = io.StringIO()
    compiler = compiling.Compiler(go, written, log, lambda _: None)
    with pytest.raises(compiling.BuildFailed) as failed:
        compiler.build(tmp_path, (), ("example.org/a",), tmp_path / "bin")
    assert "exit code 2" in failed.value.message
    assert "pkg/a39.go: broken" in failed.value.message
    assert "pkg/a24.go" not in failed.value.message
    assert str(log) in failed.value.message
    assert "pkg/a0.go: broken" in written.getvalue()


def test_compiled_packages_are_counted_over_all_modules(tmp_path: Path) -> None:
    go = stand_in_go(
        tmp_path,
        'if "list" in sys.argv: print("a\\nb\\nc")\n'
        'else: print("go: downloading x v1\\na\\n# warning\\nb", file=sys.stderr)',
    )
    steps: list[compiling.Step] = []
    compiler = compiling.Compiler(go, io.StringIO(), tmp_path / "log", steps.append)
    compiler.count([(tmp_path, ("m1",)), (tmp_path, ("m2",))])
    compiler.build(tmp_path, (), ("m1",), tmp_path / "bin")
    assert (steps[-1].done, steps[-1].total) == (2, 6)


@pytest.mark.parametrize(
    ("done", "total", "elapsed_s", "remaining_s"),
    [
        pytest.param(0, 0, 60.0, compiling.ESTIMATE_S - 60, id="from experience at first"),
        pytest.param(50, 1000, 60.0, compiling.ESTIMATE_S - 60, id="and under a tenth"),
        pytest.param(250, 1000, 100.0, 300.0, id="then by the share"),
        pytest.param(1000, 1000, 500.0, 0.0, id="nothing when all is compiled"),
        pytest.param(0, 1000, 9999.0, 0.0, id="never negative"),
    ],
)
def test_what_is_left_of_a_build(
    done: int, total: int, elapsed_s: float, remaining_s: float
) -> None:
    assert compiling.Step("", done, total, elapsed_s).remaining_s == pytest.approx(remaining_s)


def test_progress_as_a_plain_line() -> None:
    line = console.plain(compiling.Step("compiling k8s.io/api", 500, 2000, 100.0))
    assert line == " 25 %  after 2 min, about 5 min to go: compiling k8s.io/api"


def test_manifests_are_gathered_as_json(tmp_path: Path) -> None:
    crd = "spec: {{group: {group}}}\n---\n"
    for path, text in {
        "kueue/config/components/crd/bases/a.yaml": crd.format(group="kueue.x-k8s.io"),
        "kueue/config/components/webhook/manifests.yaml": "kind: A\n---\nkind: B\n",
        "kuberay/config/crd/bases/b.yaml": crd.format(group="ray.io"),
        "autoscaler/config/crd/x_provisioningrequests.yaml": crd.format(
            group="autoscaling.x-k8s.io"
        ),
        "autoscaler/config/crd/x_others.yaml": crd.format(group="never"),
        **{f"kwok/kustomize/stage/{stage}": "kind: Stage\n" for stage in manifests.STAGES},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    manifests.gather(
        tmp_path / "manifests",
        **{name: tmp_path / name for name in ("kueue", "kwok", "autoscaler", "kuberay")},
    )
    built = build.Built(tmp_path)
    assert [each["spec"]["group"] for each in built.crds()] == [
        "kueue.x-k8s.io",
        "ray.io",
        "autoscaling.x-k8s.io",
    ]
    assert [each["kind"] for each in built.kueue_webhooks()] == ["A", "B"]
    assert len(built.stages) == len(manifests.STAGES)
