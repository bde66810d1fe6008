"""The configuration sections of images and of each provider, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the configuration's reader evaluates the annotations
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from storage import immutable, networks_of, setting

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


@immutable
class ImageSettings:
    """Section ``[images]``: the folder of images, the image of a step, and pulls on demand.

    A tag is pulled once; ``ci-daemon image pull`` pulls it again. Any pipeline can use the logins of the service's user
    (``skopeo login``).
    """

    dir: Path | None = setting(
        None,
        "The folder of images, which several state directories may share; if not set, `images` in the state directory.",
        example="/var/lib/ci-daemon/images",
    )
    default: str | None = setting(
        None,
        "The image of steps that name none; if not set, `ci-daemon image default` chooses it.",
        example="debian:12",
    )
    map: Mapping[str, str] = setting(
        {}, 'The image to use for each name that pipelines use; `"default"` stands for the default image.'
    )
    on_demand: bool = setting(default=True, description="Pull a missing image when the first job asks for it.")
    registries: tuple[str, ...] = setting(
        (
            "docker.io",
            "ghcr.io",
            "quay.io",
            "gcr.io",
            "public.ecr.aws",
            "mcr.microsoft.com",
            "registry.gitlab.com",
            "registry.k8s.io",
            "registry.fedoraproject.org",
            "registry.access.redhat.com",
        ),
        "The only registries to pull from on demand: host names, with a port if it is not the usual one; short names of"
        " images are in docker.io.",
    )
    networks: tuple[str, ...] = setting(
        (),
        'The networks of this host\'s surroundings to which registries may redirect pulls, as in `"10.1.0.0/16"`; all'
        " other addresses must be public, or the registry's own.",
    )
    max_gb: float = setting(10.0, "The most GB of a pulled image.", above=0, at_most=10_000)
    timeout: float = setting(60.0, "The seconds after which a pull fails if the registry sends nothing.", above=0)
    unused_days: int = setting(
        30,
        "The days without use after which an image that was pulled for a job is removed; 0 is never.",
        at_least=0,
        at_most=36_500,
    )

    def __post_init__(self) -> None:
        for each in self.registries:
            if "/" in each or not each or each != each.lower():
                raise ValueError(f'registries: "{each}" is no host name in lower case: write one like ghcr.io')
        _ = self.allowed_networks

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks to which registries may redirect although they are not public."""
        return networks_of(self.networks)

    @property
    def max_bytes(self) -> int:
        """The value of ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)


@immutable
class NetworkSettings:
    """Networks that VMs may reach beyond the public internet."""

    allow: tuple[str, ...] = setting(
        (), 'IPv4 networks in CIDR form, such as `["10.1.2.0/24"]`, this host\'s included.'
    )


@immutable
class SandboxSettings:
    """Section ``[sandbox]``: the limits and the privileges of each VM.

    Root of a nested user namespace has every capability in it, which opens far more of the kernel, shared by all VMs,
    to attack, nftables first.
    """

    create_seconds: float = setting(120.0, "The most seconds to make a VM.", at_least=0)
    processes: int = setting(4096, "The most processes in a VM, the service's own included.", at_least=1)
    user_namespaces: bool = setting(
        default=False,
        description="Let jobs nest user namespaces, as rootless Podman, Bubblewrap and the sandbox of Chromium do.",
    )
    base_image: str | None = setting(
        None,
        "The image whose sshd serves all VMs; unless set, the default image if it has sshd, util-linux and perl, else "
        "`debian:12`.",
        example="debian:12",
    )
    network: NetworkSettings = setting(NetworkSettings(), "Networks that VMs may reach beyond the public internet.")


Acceleration: TypeAlias = Literal["auto", "kvm", "tcg"]


@immutable
class QemuSettings:
    """Section ``[qemu]``: the machines of the provider `qemu`.

    With ``auto``, KVM is used if a trial boot under it succeeds within a second; else the host emulates the machines'
    processors (TCG), many times slower.
    """

    acceleration: Acceleration = setting("auto", 'How machines run: `"kvm"`, `"tcg"`, or what the host can.')
    system: Path = setting(
        Path("/"),
        "A folder whose `boot` and `lib/modules` have the kernel of machines, the newest if there are several.",
    )
    overhead_mb: int = setting(
        512, "The MB of memory that the host grants a machine beyond its shape, for QEMU itself.", at_least=64
    )


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
