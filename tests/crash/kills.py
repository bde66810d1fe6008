"""Kills of a running VM's processes, found from the host through the VM's process tree."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VM_PARTS = ("sshd", "init", "monitor")


def kill_part(vm: Path, part: str, rng: random.Random) -> bool:
    """Kill a part of the VM in a folder: one of its sshds, its PID 1, or its monitor on the host.

    Returns False if there is no such process at the moment.
    """
    monitor = _monitor(vm)
    if monitor is None:
        return False
    targets = [monitor]
    if part != "monitor":
        targets = [pid for pid in _children(monitor) if _status(pid, "NSpid").endswith("\t1")]
    if part == "sshd":
        targets = [pid for init in targets for pid in _descendants(init) if _status(pid, "Name").startswith("sshd")]
    if not targets:
        return False
    with suppress(ProcessLookupError):
        os.kill(rng.choice(targets), signal.SIGKILL)
        return True
    return False


def orphans(state: Path) -> list[str]:
    """Return every process, and every mount of the host, that belongs to VMs of a state directory."""
    place = f"{state}/sandbox/"
    found = [f"mount: {line}" for line in _text("self/mountinfo").splitlines() if place in line]
    others = [process.name for process in Path("/proc").glob("[0-9]*") if process.name != str(os.getpid())]
    return found + [f"process {pid}: {_text(f'{pid}/cmdline')}" for pid in others if place in _text(f"{pid}/mountinfo")]


def _monitor(vm: Path) -> int | None:
    """Return the process on the second line of the VM's lock; the launcher is on the first."""
    with suppress(FileNotFoundError):
        lines = (vm / "lock").read_text().splitlines()
        return int(lines[1].split()[0]) if len(lines) > 1 else None
    return None


def _children(pid: int) -> list[int]:
    return [int(child) for child in _text(f"{pid}/task/{pid}/children").split()]


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _status(pid: int, field: str) -> str:
    lines = (line.partition(":\t") for line in _text(f"{pid}/status").splitlines())
    return next((value for name, _, value in lines if name == field), "")


def _text(name: str) -> str:
    try:
        return Path("/proc", name).read_text()
    except OSError:
        return ""
