"""Addresses to which commits may send this service."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from actors.public_addresses import is_public, is_within
from actors.repositories.fetching.git import GitError

if TYPE_CHECKING:
    from actors.repositories.fetching.remote import Remote
    from actors.repositories.settings import RepositorySettings

__all__ = ["allowed_address"]

_HTTPS_PORT = 443


def allowed_address(remote: Remote, settings: RepositorySettings) -> str:
    """Return the address of a host that a commit names, if strangers may send this service there.

    Raises GitError for one in this host's surroundings that `repositories.networks` lacks.
    """
    port = remote.port or _HTTPS_PORT
    try:
        found = socket.getaddrinfo(remote.host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise GitError(f"{remote.host} is not found: {error}") from error
    for each in found:
        address = ip_address(str(each[4][0]).partition("%")[0])
        if is_public(address) or is_within(address, settings.allowed_networks):
            return str(address)
    raise GitError(f"{remote.host} has no public address: allow its network in repositories.networks")
