"""CPU time and memory of a VM, as its control groups count them, v1 or v2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.vms.provider import VmUse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_USAGE = re.compile(r"^usage_usec (\d+)$", re.MULTILINE)


def measure(groups: Iterable[Path]) -> VmUse:
    """Combine the counts of a VM's groups; version 1 has one group for each controller."""
    cpu: float | None = None
    memory: int | None = None
    for group in groups:
        if found := _USAGE.search(_text(group / "cpu.stat")):
            cpu = int(found[1]) / 10**6
        elif nanoseconds := _text(group / "cpuacct.usage"):
            cpu = int(nanoseconds) / 10**9
        if current := _text(group / "memory.current") or _text(group / "memory.usage_in_bytes"):
            memory = int(current)
    return VmUse(cpu, memory)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""
