"""Kills of a VM's processes, found from the host through the VM's process tree."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from actors.vms.host.vm_folder import VmFolder

VM_PARTS = ("launcher", "monitor", "network", "init", "sshd", "supervisor")


def kill_part(vm: VmFolder, part: str, rng: random.Random) -> bool:
    """Kill a part of a VM, parked, being made or at work; False if it has none at the moment.

    The parts are the program that makes the VM, its monitor and its network program on the host, its PID 1, one of its
    sshds, and its job's supervisor.
    """
    targets = list(_processes(vm, part))
    if not targets:
        return False
    with suppress(ProcessLookupError):
        os.kill(rng.choice(targets), signal.SIGKILL)
        return True
    return False


def _processes(vm: VmFolder, part: str) -> Iterator[int]:
    """Yield the processes of a part.

    The launcher is on the first line of the VM's lock, the monitor on the second.
    """
    for number, process in enumerate(vm.processes()):
        if not process.alive:
            continue
        if number == 0:
            yield from [process.pid] if part == "launcher" else []
        elif part == "monitor":
            yield process.pid
        else:
            yield from _below(process.pid, part)


def _below(monitor: int, part: str) -> Iterator[int]:
    for child in _children(monitor):
        is_init = _status(child, "NSpid").endswith("\t1")
        if part in {"init", "network"}:
            yield from [child] if is_init == (part == "init") else []
        elif is_init:
            yield from (pid for pid in _descendants(child) if _is_part(pid, part))


def _is_part(pid: int, part: str) -> bool:
    """Tell whether a process of a VM is a part; a command is none, also before it has a name of its own."""
    named = _status(pid, "Name").startswith(part)
    forked = part == "supervisor" and _status(int(_status(pid, "PPid") or 0), "Name").startswith(part)
    return named and not forked


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
