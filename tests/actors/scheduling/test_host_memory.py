from __future__ import annotations

from pathlib import Path

import pytest

from actors.scheduling.pending_reason import memory_is_short

MEMINFO = """\
MemTotal:        8000000 kB
MemFree:          100000 kB
MemAvailable: {available:>10} kB
Buffers:          200000 kB
HugePages_Total:       0
"""


@pytest.mark.parametrize(("available", "short"), [(0, True), (399_999, True), (400_000, False), (8_000_000, False)])
def test_less_than_a_twentieth_available_is_short(tmp_path: Path, available: int, short: bool):
    file = tmp_path / "meminfo"
    file.write_text(MEMINFO.format(available=available))
    assert memory_is_short(file) is short


def test_the_hosts_own_memory_is_known():
    assert memory_is_short() in {True, False}
