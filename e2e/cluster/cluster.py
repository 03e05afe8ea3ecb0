"""One local cluster: bring it up, come back to it, work its parts, take it down.

    with Cluster.up(Settings(name="mine"), progress=print) as cluster:
        cluster.api.list_page(NODE)

Everything of a cluster lies in one folder, and every process of it carries that folder in its
environment; its links and namespaces follow from the bridge, whose hardware address is a hash of
the folder. So `down` needs the folder's path and nothing else: not the process that brought it up,
and not the records in the folder.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM
from types import TracebackType

from e2e.build import Built, ensure_built
from e2e.cluster import bootstrap, mounts, network, processes
from e2e.cluster.apply import apply, read
from e2e.cluster.bootstrap import Progress, Starting
from e2e.cluster.certificates import Authority
from e2e.cluster.layout import Layout, Ports, Record
from e2e.cluster.network import Network
from e2e.cluster.parts import Parts
from e2e.cluster.ports import PortHolder
from e2e.cluster.rest import Rest
from e2e.cluster.settings import (
    REPOSITORY,
    ClusterError,
    ExtraPart,
    Nodes,
    Settings,
    choose_nodes,
    is_root,
    require_linux,
)
from e2e.compiling import Step
from e2e.nodes.host import why_not as why_no_process_nodes
from taugrid_ray.kube.api import KubeApi
from taugrid_ray.kube.wire import connect


def _silent(_: str) -> None:
    pass


def _ignored(_: Step) -> None:
    pass


class Cluster:
    def __init__(self, layout: Layout, record: Record) -> None:
        self._layout = layout
        self._record = record
        self._parts = Parts(layout)
        self._holder = PortHolder()
        self._api: KubeApi | None = None

    @classmethod
    def up(
        cls,
        settings: Settings,
        *,
        progress: Progress = _silent,
        on_build_step: Callable[[Step], None] = _ignored,
    ) -> Cluster:
        """Start a cluster, and build its programs first where that was not done yet.

        What was started is taken down again if this fails or is interrupted.
        """
        require_linux()
        nodes = choose_nodes(settings.nodes, why_no_process_nodes())
        built = ensure_built(progress, on_build_step)
        layout = Layout(settings.home)
        layout.make()
        try:
            return cls._up(settings, nodes, built, layout, progress)
        except BaseException:
            take_down(layout.folder)
            raise

    @classmethod
    def _up(
        cls, settings: Settings, nodes: Nodes, built: Built, layout: Layout, progress: Progress
    ) -> Cluster:
        began_s = time.monotonic()

        def say(line: str) -> None:
            progress(f"{time.monotonic() - began_s:5.1f} s  {line}")

        where = _network(layout.folder, nodes, say)
        holder = PortHolder()
        record = Record(settings.name, nodes, where, _choose_ports(holder, where), built.bin)
        layout.record.write_text(record.to_json(), encoding="utf-8")
        cluster = cls(layout, record)
        start = Starting(settings, record, layout, cluster._parts, built, say)
        bootstrap.write_files(start)
        bootstrap.start_all(start)
        holder.release()
        for extra in settings.extras:
            say(f"starting {extra.name}")
            cluster.start_extra(extra)
        return cluster

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        """Come back to a cluster that another process brought up."""
        layout = Layout(folder.resolve())
        record = layout.read_record()
        if record is None:
            raise ClusterError(f"there is no cluster in {folder}", hint="python -m e2e up")
        return cls(layout, record)

    def down(self) -> int:
        """Take everything away; returns how many processes there were."""
        self._holder.release()
        return take_down(self.folder)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def folder(self) -> Path:
        return self._layout.folder

    @property
    def logs(self) -> Path:
        return self._layout.logs

    @property
    def audit_log(self) -> Path:
        """One JSON line per request that the API server finished, as far as `Settings.audit`
        says."""
        return self._layout.audit_log

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self._layout.kubeconfig

    @property
    def kubectl(self) -> Path:
        return self._record.binaries / "kubectl"

    @property
    def nodes(self) -> Nodes:
        """PROCESS or FAKE."""
        return self._record.nodes

    @property
    def network(self) -> Network:
        return self._record.network

    @property
    def ports(self) -> Ports:
        return self._record.ports

    @property
    def server(self) -> str:
        """The API server's address for this machine's own processes."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def pod_api(self) -> str:
        """HOST:PORT where pods reach the API server."""
        return f"{self.network.address}:{self.ports.apiserver}"

    @property
    def ca_file(self) -> Path:
        return self._layout.pki / "ca.crt"

    @property
    def api(self) -> KubeApi:
        """The admin's."""
        if self._api is None:
            self._api = connect(kubeconfig=str(self.kubeconfig))
        return self._api

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig with a certificate for `user`, who may do what RBAC says and nothing
        more."""
        authority = Authority.load(self._layout.pki)
        bootstrap.write_user(self._layout, self._record, authority, user, tuple(groups))
        return self._layout.kubeconfig_of(user)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """As a pod of that service account would be known to the API server, by certificate."""
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        return self.kubeconfig_for(f"system:serviceaccount:{namespace}:{name}", groups)

    def free_port(self) -> int:
        """A port for an extra part, held for it until it listens."""
        return self._holder.choose()

    def start_extra(self, extra: ExtraPart) -> None:
        for file in extra.manifests:
            apply(self.api, read(file))
        kubeconfig = (
            self.kubeconfig_for(extra.user, extra.groups) if extra.user else self.kubeconfig
        )
        self.start_part(
            extra.name, extra.argv, extra.env, kubeconfig=kubeconfig, ready_url=extra.ready_url
        )

    def start_part(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        kubeconfig: Path | None = None,
        ready_url: str = "",
        ready_timeout_s: float = bootstrap.START_S,
    ) -> None:
        """Start a program as a part of this cluster; with `ready_url`, wait until that answers 200.

        In argv, env and ready_url {folder}, {kubeconfig}, {python}, {server}, {ca}, {bridge},
        {address}, {subnet}, {prefix}, {pod_api} and {port} (a free one, the same throughout) stand
        for this cluster's values. The environment also gets KUBECONFIG. Without `ready_url` the
        part is only known to have been started.
        """
        values = self._values(
            kubeconfig or self.kubeconfig, [*argv, *(env or {}).values(), ready_url]
        )
        self._parts.start(
            name,
            [filled(each, values) for each in argv],
            {
                "KUBECONFIG": values["kubeconfig"],
                "PYTHONPATH": str(REPOSITORY),
                **{key: filled(value, values) for key, value in (env or {}).items()},
            },
            ready_url=filled(ready_url, values),
        )
        self._await_ready(name, ready_timeout_s)

    def start_part_again(self, name: str, *, ready_timeout_s: float = bootstrap.START_S) -> None:
        """Start a part that was stopped or killed, with the command it had."""
        self._parts.start_again(name)
        self._await_ready(name, ready_timeout_s)

    def stop_part(self, name: str, *, timeout_s: float = 10.0) -> None:
        """SIGTERM; SIGKILL for one that is still there after `timeout_s`."""
        self._parts.stop(name, timeout_s=timeout_s)

    def kill_part(self, name: str) -> None:
        """SIGKILL, as a crash."""
        self._parts.kill(name)

    def part_running(self, name: str) -> bool:
        return self._parts.running(name)

    def parts(self) -> dict[str, bool]:
        """Every part that was ever started, and whether it runs."""
        return {name: self._parts.running(name) for name in self._parts.names()}

    def part_log(self, name: str) -> Path:
        return self._parts.log(name)

    def part_pid(self, name: str) -> int:
        return self._parts.record(name).pid

    def _await_ready(self, name: str, timeout_s: float) -> None:
        url = self._parts.record(name).ready_url
        if not url:
            return
        rest = Rest(self._layout.pki)
        self._parts.wait_until(
            name, lambda: rest.healthy(url), what=f"{name} is ready", timeout_s=timeout_s
        )

    def _values(self, kubeconfig: Path, texts: Sequence[str]) -> dict[str, str]:
        wants_port = any("{port}" in text for text in texts)
        return {
            "folder": str(self.folder),
            "kubeconfig": str(kubeconfig),
            "python": sys.executable,
            "server": self.server,
            "ca": str(self.ca_file),
            "bridge": self.network.bridge,
            "address": self.network.address,
            "subnet": self.network.pod_subnet,
            "prefix": self.network.prefix,
            "pod_api": self.pod_api,
            "port": str(self.free_port()) if wants_port else "",
        }


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with each {key} of `values` replaced; any other brace stays, as in JSON."""
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave Ctrl-C and SIGTERM aside for a while: half of a clean-up would be a mess."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def take_down(folder: Path) -> int:
    """Remove all of the cluster in `folder`; nothing there is fine. Returns how many processes
    there were."""
    with undisturbed():
        return _take_down(Layout(folder.resolve()))


def _take_down(layout: Layout) -> int:
    if layout.folder.exists() and not layout.mark.exists() and any(layout.folder.iterdir()):
        raise ClusterError(f"{layout.folder} is not a cluster's folder: nothing was touched")
    bridges = network.own_bridges(layout.folder)
    spaces = [network.NAMESPACES / n for b in bridges for n in network.namespaces(f"{b}-")]
    count = processes.end_all(
        layout.folder,
        networks={identity for space in spaces if (identity := processes.network_identity(space))},
        recorded=Parts(layout).recorded(),
    )
    network.remove(layout.folder)
    mounts.unmount_below(layout.folder)
    if layout.folder.exists():
        shutil.rmtree(layout.folder)
    return count


def _network(folder: Path, nodes: Nodes, say: Progress) -> Network:
    """A bridge where this machine lets us have one. Process nodes need it; beside fake ones it only
    keeps calls of fake pods' addresses on this machine."""
    if not is_root():
        return Network(0)
    try:
        return network.create(folder)
    except ClusterError as error:
        if nodes is Nodes.PROCESS:
            raise
        say(f"goes on without a bridge: {error.message}")
        network.remove(folder)
        return Network(0)


def _choose_ports(holder: PortHolder, where: Network) -> Ports:
    everywhere = "0.0.0.0" if where.bridge else "127.0.0.1"
    return Ports(
        etcd=holder.choose(),
        etcd_peer=holder.choose(),
        apiserver=holder.choose(everywhere),
        kcm=holder.choose(),
        scheduler=holder.choose(),
        kueue_webhook=holder.choose(),
        kueue_metrics=holder.choose(),
        kueue_health=holder.choose(),
        kuberay_metrics=holder.choose(),
        kuberay_health=holder.choose(),
        kwok=holder.choose(),
    )
