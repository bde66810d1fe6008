"""The host's memory, for what can be given up when it is short."""

from __future__ import annotations

from pathlib import Path

_SHORT = 0.05
"""The host's memory is short while less than this share of it is available."""


def memory_is_short(meminfo: Path = Path("/proc/meminfo")) -> bool:
    """Tell whether less than a twentieth of the host's memory is available."""
    facts = {}
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, amount = line.partition(":")
        facts[name] = amount
    available, total = (int(facts[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    return available < total * _SHORT
