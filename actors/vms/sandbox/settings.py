"""The configuration section of the sandbox and its network, with their defaults."""

from __future__ import annotations

from storage import immutable, setting


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
