"""Process nodes, their pure parts: what a container gets, what a node offers, what is answered."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from e2e.cluster.settings import ClusterError, Nodes, choose_nodes
from e2e.nodes import host, node, probes
from e2e.nodes.addresses import NoAddressLeft, Subnet, next_offset
from e2e.nodes.environment import ConfigError, Surroundings, command_line, environment
from e2e.nodes.hosts import Self, hosts_text
from e2e.nodes.kubelet import BadQuery, other_way, part_of
from e2e.nodes.limits import cgroup_files
from e2e.nodes.logs import LogFile, Part, next_log, read_log
from e2e.nodes.probes import Kind, Verdict
from e2e.nodes.volumes import memory_sizes, mount_orders
from taugrid_ray.kinds.resource import Obj

# What this machine can do


def test_without_root_it_says_so_and_the_nodes_are_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    why = host.why_not()
    assert "root" in why
    assert choose_nodes(Nodes.AUTO, why) is Nodes.FAKE
    with pytest.raises(ClusterError, match="root") as refused:
        choose_nodes(Nodes.PROCESS, why)
    assert refused.value.hint == "use --nodes fake"


def test_a_missing_command_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    monkeypatch.setattr(host.shutil, "which", lambda name: None if name == "ip" else f"/{name}")
    assert host.why_not() == "process nodes need the commands ip (iproute2)"


def test_refused_namespaces_are_told_in_the_kernels_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in host.COMMANDS:
        (tmp_path / name).write_text("#!/bin/sh\necho 'unshare failed: not permitted' >&2; exit 1")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    why = host.why_not()
    assert why == "process nodes need namespaces and overlay mounts: unshare failed: not permitted"
    assert choose_nodes(Nodes.AUTO, why) is Nodes.FAKE


# A node


def a_node(**annotations: str) -> Obj:
    named = {f"e2e.taugrid.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {
        "metadata": {
            "name": "n",
            "creationTimestamp": "1970-01-01T00:16:40Z",
            "annotations": {"e2e.taugrid.io/node": "process", **named},
        },
        "status": {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}},
    }


def test_a_node_boots_when_its_maker_said() -> None:
    assert node.boot_of(a_node()).ready_at_s == 1000
    assert node.boot_of(a_node(ready_after_seconds="2.5")).ready_at_s == 1002.5
    assert node.boot_of(a_node(ready_after_seconds="never")).ready_at_s is None
    odd = node.boot_of(a_node(ready_after_seconds="soon"))
    assert odd.ready_at_s == 1000
    assert "soon" in odd.mistakes[0]


def test_accelerators_show_up_late_or_never() -> None:
    later = '{"nvidia.com/gpu": {"amount": "8", "seconds": 20}, "x/y": {"seconds": "never"}}'
    made = a_node(advertise_after=later, ready_after_seconds="5")
    boot = node.boot_of(made)
    assert boot.mistakes == ()
    assert node.offered(made, boot, 1024.0)[1] == {"cpu": "2"}
    capacity, allocatable = node.offered(made, boot, 1025.0)
    assert capacity == allocatable == {"cpu": "2", "nvidia.com/gpu": "8"}


@pytest.mark.parametrize("text", ["[]", "no JSON", '{"nvidia.com/gpu": 8}'])
def test_an_unreadable_annotation_is_said_and_ignored(text: str) -> None:
    boot = node.boot_of(a_node(advertise_after=text))
    assert boot.later == ()
    assert len(boot.mistakes) == 1


def test_a_heartbeat_alone_is_not_worth_a_write() -> None:
    made = a_node()
    boot = node.boot_of(made)

    def status(obj: Obj, now_s: float) -> Obj:
        return node.node_status(obj, boot, address="10.244.1.1", port=1, now_s=now_s)

    first = status(made, 1001.0)
    second = status({**made, "status": first}, 1011.0)
    assert first != second
    assert node.without_heartbeat(first) == node.without_heartbeat(second)


# A container's surroundings

POD: Obj = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"ray.io/group": "w"}},
    "spec": {"nodeName": "node-1"},
}
AROUND = Surroundings(
    POD,
    {"podIP": "10.0.0.2", "hostIP": "10.0.0.1"},
    {"cpu": "2", "memory": "1Gi"},
    {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    secrets={"s": {"token": b"abc"}},
    config_maps={"c": {"A": b"1", "B": b"2"}},
)


def test_the_environment_is_what_the_kubelet_would_make() -> None:
    limits = {"cpu": "1500m", "memory": "1Gi"}
    written: Obj = {
        "name": "main",
        "resources": {"limits": limits},
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "X_"}],
        "env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {
                "name": "G",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['ray.io/group']"}},
            },
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {
                "name": "MEM",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
            },
            {"name": "ALL", "value": "$(IP):$(X_A) $$(IP) $(NOBODY)"},
            {
                "name": "GONE",
                "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}},
            },
        ],
    }
    assert environment(written, AROUND) == {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "X_A": "1",
        "X_B": "2",
        "IP": "10.0.0.2",
        "G": "w",
        "T": "abc",
        "CPU": "2",
        "MEM": "1024",
        "ALL": "10.0.0.2:1 $(IP) $(NOBODY)",
    }


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"secretKeyRef": {"name": "no", "key": "k"}}, 'secret "no" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "Z"}}, "key Z in configmap c"),
        ({"fieldRef": {"fieldPath": "spec.odd"}}, "spec.odd"),
    ],
)
def test_what_is_missing_is_named(source: Obj, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        environment({"name": "main", "env": [{"name": "E", "valueFrom": source}]}, AROUND)


def test_without_a_command_there_is_nothing_to_run() -> None:
    assert command_line({"command": ["a", "$(X)"], "args": ["$$(X)"]}, {"X": "1"}) == [
        "a",
        "1",
        "$(X)",
    ]
    with pytest.raises(ConfigError, match='"main" has neither command nor args'):
        command_line({"name": "main"}, {})


def test_a_container_finds_its_limits() -> None:
    files = cgroup_files({"resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}}})
    assert files["cpu.max"] == "150000 100000\n"
    assert files["memory.max"] == "2147483648\n"
    free = cgroup_files({})
    assert (free["cpu.max"], free["memory.max"]) == ("max 100000\n", "max\n")


def test_shared_memory_is_as_large_as_its_volume() -> None:
    limited = {"resources": {"limits": {"memory": "1Gi"}}}
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"name": "scratch", "emptyDir": {"medium": "Memory"}},
        {"name": "disk", "emptyDir": {}},
    ]
    spec = {"containers": [limited, limited], "volumes": volumes}
    assert memory_sizes({"spec": spec}) == {
        ".shm": 64 * 1024**2,
        "shm": 2 * 1024**3,
        "scratch": 2 * 1024**3,
    }
    unlimited = {"containers": [limited, {}], "volumes": volumes[1:2]}
    assert memory_sizes({"spec": unlimited})["scratch"] == 0


def test_a_mount_of_no_volume_is_refused() -> None:
    with pytest.raises(ConfigError, match='"x" names no volume'):
        mount_orders({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, {}, {})


# Addresses and names


def test_addresses_go_round_and_leave_the_bridge_out() -> None:
    subnet = Subnet.parse("10.244.7.0/29", "10.244.7.1")
    given, last = [], 0
    for _ in range(5):
        last = next_offset(subnet, given, last)
        given.append(last)
    assert given == [2, 3, 4, 5, 6]
    with pytest.raises(NoAddressLeft, match="5 are in use"):
        next_offset(subnet, given, last)
    assert next_offset(subnet, [3, 4], 5) == 6, "a freed address is not used again at once"
    with pytest.raises(ValueError, match="not the address of a host"):
        Subnet.parse("10.244.7.0/24", "10.244.8.1")


def test_the_hosts_file_stands_in_for_dns() -> None:
    def service(name: str, **spec: object) -> Obj:
        return {"metadata": {"name": name, "namespace": "n"}, "spec": spec}

    addresses = {
        "subsets": [{"addresses": [{"ip": "10.0.0.2"}], "notReadyAddresses": [{"ip": "10.0.0.3"}]}]
    }
    text = hosts_text(
        Self("n", "pod-1", "10.0.0.9"),
        [service("head", clusterIP="None", publishNotReadyAddresses=True), service("web")],
        {"head": addresses, "web": addresses},
        "10.0.0.1",
    )
    lines = text.splitlines()
    assert "10.0.0.9 pod-1" in lines
    assert "10.0.0.2 head.n.svc.cluster.local head.n.svc head.n head" in lines
    assert [line.split()[0] for line in lines if "head.n.svc" in line] == ["10.0.0.2", "10.0.0.3"]
    assert [line.split()[0] for line in lines if "web.n.svc" in line] == ["10.0.0.2"]
    assert any(line.startswith("10.0.0.1 kubernetes.default.svc") for line in lines)


# Probes


def test_a_verdict_needs_its_number_of_answers_in_a_row() -> None:
    probe = probes.probes(
        {"readinessProbe": {"httpGet": {}, "failureThreshold": 2, "periodSeconds": 5}}
    )[0]
    assert probe.kind is Kind.READINESS
    asked = probes.first_ask(probe, 100.0)
    verdicts = []
    for good in (False, True, False, False, True):
        at_s = asked.next_at_s
        assert probes.is_due(probe, asked, at_s, started=True)
        asked, verdict = probes.after_answer(probe, asked, good=good, asked_at_s=at_s, now_s=at_s)
        verdicts.append(verdict)
        assert asked.next_at_s == at_s + 5
    assert verdicts == [None, Verdict.GOOD, None, Verdict.BAD, Verdict.GOOD]


def test_only_the_startup_probe_is_asked_before_the_start() -> None:
    both = probes.probes({"startupProbe": {}, "livenessProbe": {}})
    due = {p.kind: probes.is_due(p, probes.first_ask(p, 0.0), 1.0, started=False) for p in both}
    assert due == {Kind.STARTUP: True, Kind.LIVENESS: False}


# Logs


def write(log: LogFile, *pieces: tuple[bytes, float]) -> None:
    size = 0
    with log.path.open("wb") as out, log.times_path.open("wb") as times:
        for text, at_s in pieces:
            size += out.write(text)
            times.write(struct.pack("<Qd", size, at_s))


def read(log: LogFile, part: Part) -> bytes:
    return b"".join(read_log(log, part, lambda: False))


def test_a_part_of_a_log_is_read_by_lines_bytes_and_time(tmp_path: Path) -> None:
    log = next_log(tmp_path / "main")
    write(log, (b"one\ntwo\n", 100.0), (b"three\n", 200.0), (b"four", 300.0))
    assert read(log, Part()) == b"one\ntwo\nthree\nfour"
    assert read(log, Part(tail_lines=2)) == b"three\nfour"
    assert read(log, Part(tail_lines=0)) == b""
    assert read(log, Part(since_s=150.0)) == b"three\nfour"
    assert read(log, Part(limit_bytes=5)) == b"one\nt"
    stamped = read(log, Part(timestamps=True)).splitlines()
    assert stamped[2] == b"1970-01-01T00:03:20.000000000Z three"
    assert next_log(tmp_path / "main").path.name == "1.log", "a log is never written over"


def test_a_query_is_read_as_kubectl_writes_it() -> None:
    part, previous = part_of("follow=true&tailLines=5&sinceSeconds=60&previous=true", 1000.0)
    assert part == Part(follow=True, tail_lines=5, since_s=940.0)
    assert previous
    for query in ("tailLines=-1", "tailLines=x", "sinceTime=yesterday"):
        with pytest.raises(BadQuery):
            part_of(query, 0.0)


def test_exec_is_answered_with_the_command_that_does_it() -> None:
    assert other_way("exec", 42).endswith("nsenter --target 42 --all COMMAND")
    assert "does not run" in other_way("exec", 0)
    assert "nsenter" not in other_way("portForward", 42)
