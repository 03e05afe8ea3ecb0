"""Settings, command lines, certificates and configuration files of a cluster."""

from __future__ import annotations

import json
import stat
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from e2e.cluster import apply, commands, kueue_config
from e2e.cluster.certificates import Authority, write_secret
from e2e.cluster.cluster import filled, take_down
from e2e.cluster.extras import CONTROLLER, NODE_AGENT, default_extras
from e2e.cluster.kubeconfigs import kubeconfig
from e2e.cluster.layout import Layout, Ports, Record
from e2e.cluster.network import Network
from e2e.cluster.settings import Audit, ClusterError, Nodes, Settings, choose_nodes

PORTS = Ports(**{each.name: 20000 + number for number, each in enumerate(fields(Ports))})
LAYOUT = Layout(Path("/c:l u"))


def record(number: int = 2) -> Record:
    return Record("mine", Nodes.PROCESS, Network(number), PORTS, Path("/bin-of"))


def test_a_record_survives_its_file() -> None:
    assert Record.from_json(record().to_json()) == record()


@pytest.mark.parametrize("text", ["", "{}", '{"schemaVersion": 99}', "[]"])
def test_a_broken_record_says_what_to_do(tmp_path: Path, text: str) -> None:
    layout = Layout(tmp_path)
    layout.record.write_text(text)
    with pytest.raises(ClusterError, match="not readable") as broken:
        layout.read_record()
    assert "down" in broken.value.hint


def test_every_part_listens_on_loopback_alone_but_the_api_server() -> None:
    argvs = {
        "etcd": commands.etcd(record(), LAYOUT),
        "kcm": commands.kcm(record(), LAYOUT),
        "scheduler": commands.scheduler(record(), LAYOUT),
        "kuberay": commands.kuberay(record(), LAYOUT, ("--watch-namespace=a",)),
        "kwok": commands.kwok(record(), LAYOUT, [Path("/stage.yaml")]),
    }
    for name, argv in argvs.items():
        assert argv[0] == commands.binary(record(), name)
        assert not [each for each in argv if "0.0.0.0" in each or "=:" in each], name
    assert argvs["kuberay"][-1] == "--watch-namespace=a"
    assert "--config=/stage.yaml" in argvs["kwok"]
    assert f"--cidr={Network(2).fake_subnet}" in argvs["kwok"]


def test_the_api_server_listens_for_pods_only_where_there_is_a_bridge() -> None:
    with_bridge = commands.apiserver(record(), LAYOUT, Audit.WRITES)
    without = commands.apiserver(record(0), LAYOUT, Audit.WRITES)
    assert "--bind-address=0.0.0.0" in with_bridge
    assert "--bind-address=127.0.0.1" in without
    for argv in (with_bridge, without):
        assert "--anonymous-auth=false" in argv


def test_audit_can_be_switched_off() -> None:
    on = commands.apiserver(record(), LAYOUT, Audit.WRITES)
    off = commands.apiserver(record(), LAYOUT, Audit.OFF)
    assert [each for each in on if each.startswith("--audit")]
    assert not [each for each in off if each.startswith("--audit")]


def test_the_audit_policy_keeps_writes_alone_unless_all_is_wanted() -> None:
    writes, nothing = commands.audit_policy(Audit.WRITES)["rules"]
    assert "get" not in writes["verbs"]
    assert "patch" in writes["verbs"]
    assert nothing == {"level": "None"}
    assert "verbs" not in commands.audit_policy(Audit.ALL)["rules"][0]


def test_kueue_gets_a_root_of_its_own_and_paths_inside_of_it() -> None:
    as_root = commands.kueue(LAYOUT, root=True)
    assert f"--root={LAYOUT.kueue_root}" in as_root
    assert "--config=/config.json" in as_root
    assert as_root.count("/kueue") == 1
    assert set(commands.kueue(LAYOUT, root=False)) - set(as_root) == {"--map-root-user"}


def test_kueue_keeps_the_limits_of_its_release() -> None:
    config = configuration()
    assert config["clientConnection"] == {"qps": 300, "burst": 500}
    assert config["controller"]["groupKindConcurrency"]["Workload.kueue.x-k8s.io"] == 10
    assert configuration(release_limits=False)["clientConnection"]["qps"] > 300
    assert "waitForPodsReady" not in config


def test_kueue_is_configured_key_by_key() -> None:
    config = configuration(
        overrides={
            "waitForPodsReady": {"timeout": "1m"},
            "featureGates": {"ElasticJobsViaWorkloadSlices": False},
            "metrics": None,
        }
    )
    assert config["waitForPodsReady"] == {"timeout": "1m"}
    assert config["featureGates"] == {
        "VisibilityOnDemand": False,
        "ElasticJobsViaWorkloadSlices": False,
    }
    assert "metrics" not in config


def configuration(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "frameworks": ["batch/job"],
        "webhook_port": 1,
        "metrics_port": 2,
        "health_port": 3,
        "certificates": "/certs",
        "release_limits": True,
        "overrides": {},
    }
    return kueue_config.configuration(**{**given, **changed})


def released(*paths: str) -> list[dict[str, Any]]:
    return [
        {
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "mutating-webhook-configuration"},
            "webhooks": [
                {"name": path, "clientConfig": {"service": {"name": "s", "path": path}}}
                for path in paths
            ],
        }
    ]


PATHS = (
    "/mutate-batch-v1-job",
    "/mutate--v1-pod",
    "/mutate-ray-io-v1-rayjob",
    "/mutate-ray-io-v1-rayservice",
    "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
    "/mutate-kubeflow-org-v1-pytorchjob",
    "/mutate-kueue-x-k8s-io-v1beta2-workload",
    "/validate-kueue-x-k8s-io-v1beta2-cohort",
)


@pytest.mark.parametrize(
    ("frameworks", "kept"),
    [
        pytest.param(["batch/job"], {"/mutate-batch-v1-job"}, id="Jobs, not PyTorchJobs"),
        pytest.param(
            ["ray.io/rayjob", "pod"], {"/mutate-ray-io-v1-rayjob", "/mutate--v1-pod"}, id="pods"
        ),
    ],
)
def test_webhooks_of_the_chosen_integrations_are_kept(
    frameworks: list[str], kept: set[str]
) -> None:
    core = {"/mutate-kueue-x-k8s-io-v1beta2-workload", "/validate-kueue-x-k8s-io-v1beta2-cohort"}
    (one,) = kueue_config.webhooks(
        released(*PATHS), frameworks=frameworks, port=7, authority="Q0E="
    )
    assert {hook["name"] for hook in one["webhooks"]} == kept | core
    assert one["metadata"]["name"] == "kueue-mutating-webhook-configuration"
    for hook in one["webhooks"]:
        assert hook["clientConfig"] == {
            "url": f"https://127.0.0.1:7{hook['name']}",
            "caBundle": "Q0E=",
        }
        assert ("namespaceSelector" in hook) == (hook["name"] in kept)


def test_an_unknown_integration_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"example\.org/thing"):
        kueue_config.webhooks([], frameworks=["example.org/thing"], port=1, authority="")


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-a", "a" * 33, "a b"])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError):
        Settings(name=name)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ClusterError, match="kubelet"):
        Settings(parts=("kubelet",))


def test_nodes_fall_back_only_when_nobody_asked_for_processes() -> None:
    assert choose_nodes(Nodes.AUTO, "") is Nodes.PROCESS
    assert choose_nodes(Nodes.AUTO, "no root") is Nodes.FAKE
    assert choose_nodes(Nodes.FAKE, "") is Nodes.FAKE
    with pytest.raises(ClusterError, match="no root"):
        choose_nodes(Nodes.PROCESS, "no root")


def test_the_node_agent_runs_only_with_process_nodes() -> None:
    assert NODE_AGENT in default_extras(Nodes.PROCESS)
    assert NODE_AGENT not in default_extras(Nodes.FAKE)


def test_the_controller_is_no_admin() -> None:
    assert "system:masters" not in CONTROLLER.groups
    documents = [each for file in CONTROLLER.manifests for each in apply.read(file)]
    accounts = [each["metadata"] for each in documents if each["kind"] == "ServiceAccount"]
    namespace, name = CONTROLLER.user.split(":")[2:]
    assert {"name": name, "namespace": namespace} in accounts


def test_only_known_words_in_braces_are_filled_in() -> None:
    text = '{"a": {"port": {port}}} {other}'
    assert filled(text, {"port": "7", "folder": "/x"}) == '{"a": {"port": 7}} {other}'


def test_a_certificate_carries_user_and_groups(tmp_path: Path) -> None:
    authority = Authority.new("mine")
    write_secret(tmp_path / "ca.crt", authority.pair.certificate)
    write_secret(tmp_path / "ca.key", authority.pair.key)
    user = "system:serviceaccount:a:b"
    pair = Authority.load(tmp_path).client(user, ["g1", "g2"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    names = [attribute.value for attribute in certificate.subject]
    assert names == ["g1", "g2", user]
    certificate.verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.pair.certificate)
    )
    assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600


def test_a_kubeconfig_needs_no_other_file() -> None:
    pair = Authority.new("mine").client("me", [])
    text = kubeconfig(name="n", server="https://x", authority=b"ca", user="me", pair=pair)
    config = json.loads(text)
    assert config["clusters"][0]["cluster"]["server"] == "https://x"
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


def test_users_with_odd_names_get_files_of_their_own() -> None:
    one, other = LAYOUT.kubeconfig_of("a:b/../c"), LAYOUT.kubeconfig_of("a:b/./c")
    assert one != other
    assert one.parent == other.parent == LAYOUT.users


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Namespace", "namespaces"),
        ("CapacityPolicy", "capacitypolicies"),
        ("PriorityClass", "priorityclasses"),
        ("ClusterRoleBinding", "clusterrolebindings"),
        ("CustomResourceDefinition", "customresourcedefinitions"),
    ],
)
def test_plurals(kind: str, plural: str) -> None:
    assert apply.plural_of(kind) == plural


def test_a_folder_that_is_no_clusters_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ClusterError, match="not a cluster's folder"):
        take_down(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_taking_down_nothing_is_fine(tmp_path: Path) -> None:
    assert take_down(tmp_path / "never-there") == 0


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "deep" / "cluster")
    layout.make()
    with pytest.raises(ClusterError, match="already") as taken:
        layout.make()
    assert "down" in taken.value.hint
    assert take_down(layout.folder) == 0
    assert not layout.folder.exists()
