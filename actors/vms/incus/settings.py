"""The configuration section of the provider `incus`, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from storage import immutable, setting

InstanceType: TypeAlias = Literal["container", "virtual-machine"]


@immutable
class IncusSettings:
    """Section ``[incus]``: the Incus or LXD server or cluster on which the provider `incus` makes VMs.

    The project, the profile, the storage pool and the network are made on the engine beforehand.
    """

    addresses: tuple[str, ...] = setting(
        (), 'The members\' addresses, such as `["https://10.1.2.3:8443"]`; any that answers will do.'
    )
    socket: Path = setting(
        Path("/var/lib/incus/unix.socket"), "The socket of an engine on this host, used if there are no addresses."
    )
    certificate: Path | None = setting(
        None,
        "The service's certificate; unless set, `incus/client.crt` in the state directory.",
        example="/etc/ci-daemon/incus.crt",
    )
    key: Path | None = setting(
        None,
        "Its private key; unless set, `incus/client.key` in the state directory.",
        example="/etc/ci-daemon/incus.key",
    )
    server_certificate: Path | None = setting(
        None,
        "The only certificate to accept of the members; unless set, `incus/server.crt` in the state directory.",
        example="/etc/ci-daemon/incus-members.crt",
    )
    project: str = setting("ci", "The project that has the instances, images and volumes.")
    profile: str = setting("ci", "The profile of the instances.")
    storage: str = setting("ci", "The storage pool of the instances and of the jobs' disks.")
    network: str = setting("ci", "The managed bridge that the instances are on.")
    instances: InstanceType = setting(
        "container",
        'The kind of the VMs: `"container"`, or `"virtual-machine"` with a kernel of its own, on Incus whose members '
        "have KVM.",
    )
    prefix: str = setting("ci", "The begin of all names; each service in a project needs its own.")
    create_seconds: float = setting(120.0, "The most seconds to make a VM.", at_least=0)
    lost_seconds: float = setting(
        30.0,
        "The seconds that a member is offline before its VMs count as lost: their jobs then run again elsewhere.",
        at_least=0,
    )
    processes: int = setting(4096, "The most processes in a VM, the service's own included.", at_least=1)

    def __post_init__(self) -> None:
        for each in self.addresses:
            if urlsplit(each).scheme != "https" or not urlsplit(each).hostname:
                raise ValueError(f'addresses: "{each}" is no address of a member: write one like https://10.1.2.3:8443')
