"""Certificates: whom we trust, under which name, who we are, and a pod's own token."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taugrid_ray.errors import Unreachable, UsageError
from taugrid_ray.kinds.resource import NAMESPACE
from taugrid_ray.kube.clock import SystemClock
from taugrid_ray.kube.wire import Limits, Wire, connect
from tests.fake_kube import Face, FakeKube

from .test_credentials import write

pytest.importorskip("cryptography", reason="makes the certificates of these tests")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

IMPATIENT = Limits(connect_s=2, read_s=2, patience_s=0)


class Authority:
    """A certificate authority of the plain kind: without key identifiers, as many clusters have."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("ca")
        self.cert = self._sign("ca", self._key, is_ca=True, issuer=self._name)
        self.pem = self.cert.public_bytes(serialization.Encoding.PEM)

    def pair(self, folder: Path, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._sign(name, key, is_ca=False, issuer=self._name)
        cert_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
        cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert_file, key_file

    def _sign(self, name: str, key: Any, *, is_ca: bool, issuer: x509.Name) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        alternatives = [
            x509.DNSName(f"{name}.example"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass
class Place:
    face: Face
    ca: Authority
    folder: Path
    server_tls: ssl.SSLContext

    @property
    def ca_data(self) -> str:
        return base64.b64encode(self.ca.pem).decode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    ca = Authority()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*ca.pair(tmp_path, "server"))
    kube = FakeKube(SystemClock(), namespaces=["default"])
    with Face(kube, bookmark_s=0.05, tls=tls) as face:
        yield Place(face, ca, tmp_path, tls)


def works(wire: Wire) -> bool:
    try:
        return len(wire.list_page(NAMESPACE).items) == 1
    finally:
        wire.close()


def test_the_cluster_s_authority_is_trusted_and_no_other(place: Place) -> None:
    path = place.folder / "config"
    config = write(path, place.face.server, **{"certificate-authority-data": place.ca_data})
    wire = connect(kubeconfig=config, limits=IMPATIENT)
    assert works(wire)
    with pytest.raises(Unreachable, match="certificate verify failed"):
        works(connect(kubeconfig=write(path, place.face.server), limits=IMPATIENT))
    other = base64.b64encode(Authority().pem).decode()
    config = write(path, place.face.server, **{"certificate-authority-data": other})
    with pytest.raises(Unreachable, match="certificate verify failed"):
        works(connect(kubeconfig=config, limits=IMPATIENT))


def test_a_handshake_is_paid_once(place: Place) -> None:
    config = write(
        place.folder / "config",
        place.face.server,
        **{"certificate-authority-data": place.ca_data},
    )
    wire = connect(kubeconfig=config, limits=IMPATIENT)
    for _ in range(20):
        wire.get(NAMESPACE, "default")
    wire.close()
    assert place.face.connections == 1


@pytest.mark.parametrize(("name", "trusted"), [("server.example", True), ("evil.example", False)])
def test_the_server_s_name_may_be_another(place: Place, name: str, trusted: bool) -> None:
    cluster = {"certificate-authority-data": place.ca_data, "tls-server-name": name}
    config = write(place.folder / "config", place.face.server, **cluster)
    wire = connect(kubeconfig=config, limits=IMPATIENT)
    if trusted:
        assert works(wire)
        return
    with pytest.raises(Unreachable):
        works(wire)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_verification_may_be_left_out(place: Place) -> None:
    cluster = {"insecure-skip-tls-verify": True}
    config = write(place.folder / "config", place.face.server, **cluster)
    assert works(connect(kubeconfig=config, limits=IMPATIENT))


def test_a_client_certificate(place: Place) -> None:
    place.server_tls.load_verify_locations(cadata=place.ca.pem.decode())
    place.server_tls.verify_mode = ssl.CERT_REQUIRED
    cert, key = place.ca.pair(place.folder, "client")
    cluster = {"certificate-authority-data": place.ca_data}
    path = place.folder / "config"
    user = {"client-certificate": str(cert), "client-key": str(key)}
    config = write(path, place.face.server, user=user, **cluster)
    assert works(connect(kubeconfig=config, limits=IMPATIENT))
    with pytest.raises(Unreachable):
        works(connect(kubeconfig=write(path, place.face.server, **cluster), limits=IMPATIENT))
    key.write_text("no key")
    config = write(path, place.face.server, user=user, **cluster)
    with pytest.raises(UsageError, match="certificates"):
        connect(kubeconfig=config)


def test_in_a_pod(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 94: a pod's token is replaced while we run; at the latest a 401 makes us read it."""
    from kubernetes.config import incluster_config

    token, ca = place.folder / "token", place.folder / "ca.crt"
    token.write_text("first\n")
    ca.write_bytes(place.ca.pem)
    # The places are fixed in a real pod; here they are the only thing that is not real.
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setenv("HOME", str(place.folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(place.face.port))
    place.face.tokens = {"first"}
    wire = connect(limits=IMPATIENT)
    assert wire.namespace == "default"
    assert works(wire)
    token.write_text("second\n")
    place.face.tokens = {"second"}
    assert works(wire)
    assert len(place.face.seen) == 3
