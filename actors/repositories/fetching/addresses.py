"""Addresses that a commit may name for this service to connect to."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from actors.repositories.fetching.git import GitError
from actors.vms.public_addresses import is_public, is_within
from storage import error_reason

if TYPE_CHECKING:
    from actors.repositories.fetching.remote import Remote
    from actors.repositories.settings import RepositorySettings

_HTTPS_PORT = 443


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
