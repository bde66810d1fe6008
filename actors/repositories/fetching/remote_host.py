"""The host of a repository: its addresses that may be fetched from, and its keys."""

from __future__ import annotations

import base64
import hashlib
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from actors.repositories.fetching.remote import GitError
from actors.vms.public_addresses import is_public, is_within
from storage import DeployKey, error_reason

if TYPE_CHECKING:
    from actors.repositories.fetching.remote import Remote
    from actors.repositories.settings import RepositorySettings


_HTTPS_PORT = 443
_SECONDS = 15.0


def allowed_address(remote: Remote, settings: RepositorySettings) -> str:
    """Return the address of a host that a commit names, if strangers may send this service there.

    Raises GitError for one in this host's surroundings that `repositories.networks` lacks.
    """
    return allowed_addresses(remote.host, remote.port or _HTTPS_PORT, settings)[0]


def allowed_addresses(host: str, port: int, settings: RepositorySettings, *, anywhere: bool = False) -> list[str]:
    """Return the addresses of a host that may be connected to; ``anywhere`` for all that it has.

    Raises GitError if there are none.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise GitError(f"{host} is not found: {error_reason(error)}") from error
    networks = settings.allowed_networks
    addresses = dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found)
    allowed = [each for each in addresses if anywhere or is_public(each) or is_within(each, networks)]
    if not allowed:
        raise GitError(f"{host} has no public address: allow its network in repositories.networks")
    return [str(each) for each in allowed]


def new_deploy_key(name: str, pinned: str) -> DeployKey:
    """Return a new key for a repository, with its host's key."""
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - as above

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return DeployKey(private.decode(), f"{public.decode()} ci-daemon:{name}", pinned)


def host_key(remote: Remote) -> str:
    """Ask the host of an ssh remote for its key, as ``ssh-ed25519 AAAA…``. Raises GitError."""
    import paramiko  # noqa: PLC0415 - slow to import

    try:
        with (
            socket.create_connection((remote.host.strip("[]"), remote.port), _SECONDS) as connection,
            paramiko.Transport(connection) as transport,
        ):
            transport.start_client(timeout=_SECONDS)
            key = transport.get_remote_server_key()
            return f"{key.get_name()} {key.get_base64()}"
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise GitError(f"no SSH server answers at {remote.host}:{remote.port}: {error_reason(error)}") from error


def fingerprint(key: str) -> str:
    """Return a public key's fingerprint as ssh shows it, ``SHA256:…``."""
    digest = hashlib.sha256(base64.b64decode(key.split(" ")[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
