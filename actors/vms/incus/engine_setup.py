"""The service's part of an engine: a project, a network with an ACL, a profile, a certificate.

Each part is made if it is missing and corrected if it differs, so that a set-up can be repeated. The service and an
engine know each other by their certificates, and first by the engine's invitation.
"""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.vms.host.network import CLOSED_NETWORKS
from actors.vms.incus.engine import part
from actors.vms.incus.fleet import member_urls
from actors.vms.incus.refusals import EngineAway, EngineError, NotFound
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from actors.vms.incus.engine import Engine
    from actors.vms.settings import IncusSettings


_SHARING = frozenset({"btrfs", "zfs", "lvm", "ceph"})
"""Drivers of storage pools whose copies share their content."""


@immutable
class SetupStep:
    """A part of the engine, and what was done about it: "made", "changed" or "as it should be"."""

    part: str
    done: str


class EngineSetup:
    """Prepares an engine, as one of its administrators.

    ``allow`` has the networks that VMs may reach although they are private.
    """

    def __init__(self, engine: Engine, settings: IncusSettings, allow: Iterable[str]) -> None:
        """Use an engine's default project, in which networks and certificates are."""
        self._engine = engine
        self._settings = settings
        self._allow = [IPv4Network(each) for each in allow]

    def steps(self, certificate: bytes | None) -> Iterator[SetupStep]:
        """Prepare one part after the other, and yield each.

        ``certificate`` is the service's, in DER form, which is then confined to the project; None leaves the trusted
        ones alone. Raises EngineError and EngineAway.
        """
        server = self._engine.get("/1.0")
        if server.get("auth") != "trusted":
            message = "the engine does not trust this caller: run as root on a member, or use --token"
            raise EngineError(message)
        yield self._storage()
        yield self._acl()
        yield self._network(clustered=bool(server["environment"].get("server_clustered")))
        yield self._project()
        yield self._profile()
        if certificate is not None:
            yield self._trust(certificate)

    def _storage(self) -> SetupStep:
        name = self._settings.storage
        pools = {pool["name"]: pool["driver"] for pool in self._engine.get("/1.0/storage-pools", {"recursion": 1})}
        if name not in pools:
            found = ", ".join(f"{pool} ({driver})" for pool, driver in sorted(pools.items())) or "none"
            message = f"the engine has no storage pool {name!r}: create one, or set incus.storage; there are: {found}"
            raise EngineError(message)
        if pools[name] in _SHARING:
            return SetupStep(f"storage pool {name}, {pools[name]}", "as it should be")
        return SetupStep(f"storage pool {name}", f"its driver {pools[name]} copies whole disks: btrfs would not")

    def _acl(self) -> SetupStep:
        """Close private networks and the members' own addresses."""
        hosts = [urlsplit(url).hostname or "" for url in member_urls(self._engine)]
        closed = [*closed_networks(self._allow), *(each for each in hosts if _is_public_ipv4(each))]
        rule = {"action": "reject", "state": "enabled", "destination": ",".join(map(str, closed))}
        body = {"description": "What VMs may not reach", "egress": [rule], "ingress": [], "config": {}}
        name = self._settings.network
        return SetupStep(f"ACL {name}", self._put(f"/1.0/network-acls/{part(name)}", "/1.0/network-acls", name, body))

    def _network(self, *, clustered: bool) -> SetupStep:
        name = self._settings.network
        wanted = {"security.acls": name, "security.acls.default.egress.action": "allow"}
        wanted |= {"security.acls.default.ingress.action": "reject"}
        label = f"network {name}"
        try:
            found = self._engine.get(f"/1.0/networks/{part(name)}")
        except NotFound:
            if clustered:
                for member in self._members():
                    self._engine.do("POST", "/1.0/networks", {"name": name, "type": "bridge"}, {"target": member})
            config = {"ipv4.address": "auto", "ipv4.nat": "true", "ipv6.address": "none", **wanted}
            self._engine.do("POST", "/1.0/networks", {"name": name, "type": "bridge", "config": config})
            return SetupStep(label, "made")
        if not found["managed"] or found["type"] != "bridge":
            message = f"{name!r} is not a bridge of the engine's own: set incus.network to another name"
            raise EngineError(message)
        if wanted.items() <= found["config"].items():
            return SetupStep(label, "as it should be")
        self._engine.do("PATCH", f"/1.0/networks/{part(name)}", {"config": wanted})
        return SetupStep(label, "changed")

    def _project(self) -> SetupStep:
        name = self._settings.project
        config = {
            "features.images": "true",
            "features.profiles": "true",
            "features.storage.volumes": "true",
            "features.networks": "false",
            "restricted": "true",
            "restricted.cluster.target": "allow",
            "restricted.containers.nesting": "allow",
            "restricted.devices.disk": "managed",
            "restricted.devices.nic": "managed",
            "restricted.networks.access": self._settings.network,
        }
        body = {"description": "VMs of ci-daemon", "config": config}
        return SetupStep(f"project {name}", self._put(f"/1.0/projects/{part(name)}", "/1.0/projects", name, body))

    def _profile(self) -> SetupStep:
        name, project = self._settings.profile, {"project": self._settings.project}
        root = {"type": "disk", "path": "/", "pool": self._settings.storage}
        interface = {"type": "nic", "name": "eth0", "network": self._settings.network}
        body = {"description": "VMs of ci-daemon", "config": {}, "devices": {"root": root, "eth0": interface}}
        path = f"/1.0/profiles/{part(name)}"
        return SetupStep(f"profile {name}", self._put(path, "/1.0/profiles", name, body, project))

    def _trust(self, certificate: bytes) -> SetupStep:
        """Trust the service's certificate in the project alone."""
        fingerprint = fingerprint_of(certificate)
        body = {"name": "ci-daemon", "type": "client", "restricted": True, "projects": [self._settings.project]}
        path, label = f"/1.0/certificates/{fingerprint}", f"certificate {fingerprint[:12]}"
        try:
            found = self._engine.get(path)
        except NotFound:
            encoded = base64.b64encode(certificate).decode()
            self._engine.do("POST", "/1.0/certificates", {**body, "certificate": encoded})
            return SetupStep(label, "trusted in the project")
        if found["restricted"] and found["projects"] == body["projects"]:
            return SetupStep(label, "as it should be")
        self._engine.do("PUT", path, body)
        return SetupStep(label, "confined to the project")

    def _members(self) -> list[str]:
        return [member["server_name"] for member in self._engine.get("/1.0/cluster/members", {"recursion": 1})]

    def _put(
        self, path: str, parent: str, name: str, body: Mapping[str, Any], query: Mapping[str, str] | None = None
    ) -> str:
        """Make something with this content, or give it this content; return what was done."""
        try:
            found = self._engine.get(path, query)
        except NotFound:
            self._engine.do("POST", parent, {"name": name, **body}, query)
            return "made"
        if all(_holds(found.get(key), value) for key, value in body.items()):
            return "as it should be"
        self._engine.do("PUT", path, body, query)
        return "changed"


def closed_networks(allow: Iterable[IPv4Network]) -> list[IPv4Network]:
    """Return the networks that VMs may not reach, without those that are allowed."""
    closed = list(CLOSED_NETWORKS)
    for hole in allow:
        closed = [rest for network in closed for rest in _without(network, hole)]
    return sorted(closed)


def _without(network: IPv4Network, hole: IPv4Network) -> Iterator[IPv4Network]:
    if hole.subnet_of(network):
        yield from network.address_exclude(hole)
    elif not network.subnet_of(hole):
        yield network


def _is_public_ipv4(address: str) -> bool:
    try:
        found = IPv4Address(address)
    except ValueError:
        return False
    return not any(found in network for network in CLOSED_NETWORKS)


def _holds(found: object, wanted: object) -> bool:
    """Tell whether an engine's record of something has all wanted values; it adds keys of its own."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_holds, found, wanted))
    return found == wanted


_VALID_DAYS = 3650


@immutable
class JoinToken:
    """An engine's invitation, as `incus config trust add` or `lxc config trust add` prints it."""

    text: str
    addresses: tuple[str, ...]
    fingerprint: str

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Read a token. Raises EngineError."""
        try:
            fields = json.loads(base64.b64decode(text, validate=True))
            addresses = tuple(f"https://{each}" for each in fields["addresses"])
            return cls(text, addresses, str(fields["fingerprint"]))
        except (ValueError, TypeError, KeyError) as error:
            message = "this is no token of an engine: `incus config trust add ci-daemon` prints one"
            raise EngineError(message) from error


def new_certificate(now: datetime) -> tuple[str, str]:
    """Return a new certificate of the service and its private key, both in PEM form.

    It is valid for as long before ``now`` as after, because a member's clock may be behind.
    """
    private = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ci-daemon")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=_VALID_DAYS))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(private, hashes.SHA384())
    )
    encoding = serialization.Encoding.PEM
    key = private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(encoding).decode(), key.decode()


def server_certificate(token: JoinToken) -> str:
    """Return the certificate that the token's members show, in PEM form.

    Raises EngineError if it is not the token's, EngineAway if no member answers.
    """
    failed = []
    for address in token.addresses:
        host, _, port = address.removeprefix("https://").rpartition(":")
        try:
            found = ssl.get_server_certificate((host.strip("[]"), int(port)), timeout=5)
        except OSError as error:
            failed.append(f"{address}: {error_reason(error)}")
            continue
        if fingerprint_of(ssl.PEM_cert_to_DER_cert(found)) != token.fingerprint:
            message = f"{address} is not the engine that made the token: its certificate is another one"
            raise EngineError(message)
        return found
    message = f"the engine does not answer ({'; '.join(failed)}): is it reachable from here?"
    raise EngineAway(message)


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint by which an engine names a certificate in DER form."""
    return hashlib.sha256(certificate).hexdigest()
