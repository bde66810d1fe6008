"""Two engines that keep the same API: what differs in their programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    """An engine's release in Debian, its programs and folders."""

    name: str
    suite: str
    packages: tuple[str, ...]
    daemon: str
    """The program that serves the API; `waitready` as its argument waits for it."""

    client: str
    preseed: str
    """The command that reads a first configuration."""

    trust: str
    """The command that trusts the certificate in a file."""

    folder: str
    """The engine's state, with its socket and certificates."""


INCUS = Engine(
    "incus", "trixie", ("incus-base", "incus-client"),
    "/usr/libexec/incus/incusd", "incus", "incus admin init --preseed", "incus config trust add-certificate",
    "/var/lib/incus",
)  # fmt: skip
LXD = Engine(
    "lxd", "bookworm", ("lxd", "lxd-client"),
    "/usr/bin/lxd", "lxc", "lxd init --preseed", "lxc config trust add",
    "/var/lib/lxd",
)  # fmt: skip
ENGINES = {engine.name: engine for engine in (INCUS, LXD)}
