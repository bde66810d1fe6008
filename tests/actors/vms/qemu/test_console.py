"""The console of a machine, as its monitor keeps it."""

from __future__ import annotations

from pathlib import Path

from actors.vms.launcher.machine_monitor import CHUNK_BYTES, Console
from actors.vms.launcher.words import READY


def test_a_console_is_bounded_and_keeps_its_beginning_and_end(tmp_path: Path):
    console = Console(str(tmp_path / "console"))
    console.keep(b"first\n")
    for _ in range(20):
        console.keep(b"x" * CHUNK_BYTES)
    console.keep(b"last\n")
    assert (tmp_path / "console").read_bytes().startswith(b"first\n")
    assert (tmp_path / "console.later").read_bytes().endswith(b"last\n")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2 << 18


def test_a_mark_counts_as_a_whole_line_alone(tmp_path: Path):
    console = Console(str(tmp_path / "console"))
    console.keep(READY[:5])
    assert not console.has(READY)
    console.keep(READY[5:])
    assert not console.has(READY)
    console.keep(b"\r\n")
    assert console.has(READY)


def test_the_last_line_tells_why_a_machine_ended(tmp_path: Path):
    console = Console(str(tmp_path / "console"))
    assert console.last_line == b"its console is empty"
    console.keep(b"booting\nKernel panic\r\n\n")
    assert console.last_line == b"Kernel panic"
