"""The configuration section of machines, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from storage import immutable, setting

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
