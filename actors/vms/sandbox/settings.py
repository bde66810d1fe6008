"""The configuration section of the sandbox, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from actors.vms.sandbox.network import NetworkSettings

__all__ = ["SandboxSettings"]


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Section ``[sandbox]``: the most seconds to make a VM, and the most ``processes`` in one.

    ``user_namespaces = true`` lets jobs nest user namespaces, which rootless Podman, Bubblewrap and the sandbox of
    Chromium need. Root of a nested one has every capability in it, which opens far more of the kernel, shared by all
    VMs, to attack, nftables first.
    """

    create_seconds: float = 120.0
    processes: int = 4096
    user_namespaces: bool = False
    network: NetworkSettings = field(default_factory=NetworkSettings)
