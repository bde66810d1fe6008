"""The command line of QEMU, as a pure function of the machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.vms.sandbox.launcher.machine.qemu_process import FIRST_FILE
from actors.vms.sandbox.launcher.machine.words import SSH_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage import Shape

__all__ = ["File", "Machine", "command_line", "files"]

_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_KERNEL = "console=ttyS0 quiet loglevel=4 panic=-1 reboot=t tsc=reliable no_timer_check mitigations=off"
"""A kernel that panics ends QEMU. On a host under load, one that checks its timer may find it broken."""

_TCG_CACHE_MB = 256
_ADDRESS = "10.0.2.15"


@dataclass(frozen=True, slots=True)
class File:
    """A file of the host that QEMU gets open."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts of a machine; ``layers`` are those of the job's disk, its own first and the image last."""

    program: str
    kvm: bool
    shape: Shape
    network: bool
    kernel: Path
    initramfs: Path
    base: Path
    layers: Sequence[Path]
    seed: Path


def files(machine: Machine) -> list[File]:
    """Return the files of a machine, in the order of their descriptors from `FIRST_FILE` on."""
    own, *below = machine.layers
    read = [machine.kernel, machine.initramfs, machine.base, machine.seed, *below]
    return [*(File(path) for path in read[:4]), File(own, writable=True), *(File(path) for path in read[4:])]


def command_line(machine: Machine) -> list[str]:
    """Return the argv of QEMU: no device that is not needed, and files by descriptor."""
    kernel, initramfs, base, seed, *layers = range(FIRST_FILE, FIRST_FILE + len(files(machine)))
    argv = [machine.program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-sandbox", _SANDBOX]
    argv += ["-machine", "q35,usb=off,smbus=off,sata=off,vmport=off,hpet=off"]
    if machine.kvm:
        argv += ["-accel", "kvm", "-cpu", "host"]
    else:
        argv += ["-accel", f"tcg,thread=multi,tb-size={_TCG_CACHE_MB}", "-cpu", "max"]
    argv += ["-smp", str(machine.shape.cpu), "-m", f"{machine.shape.memory_gb}G"]
    argv += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    argv += ["-kernel", f"/proc/self/fd/{kernel}", "-initrd", f"/proc/self/fd/{initramfs}", "-append", _KERNEL]
    for number in (base, seed, *layers):
        argv += ["-add-fd", f"fd={number},set={number}"]
    drives = {
        "base": _raw(base),
        "job": _layered(layers, writable=True),
        "seed": _raw(seed),
    }
    for name, drive in drives.items():
        argv += ["-blockdev", json.dumps({"node-name": name, **drive})]
        argv += ["-device", f"virtio-blk-pci,drive={name}"]
    restrict = "off" if machine.network else "on"
    forward = f"hostfwd=tcp:127.0.0.1:{SSH_PORT}-{_ADDRESS}:{SSH_PORT}"
    argv += ["-netdev", f"user,id=net,ipv6=off,restrict={restrict},{forward}"]
    return [*argv, "-device", "virtio-net-pci,netdev=net,romfile="]


def trial(program: str, kernel: int, initramfs: int, word: str) -> list[str]:
    """Return the argv of a machine without disks and network, which ends at once, under KVM."""
    argv = [program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-sandbox", _SANDBOX]
    argv += ["-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256M", "-serial", "stdio"]
    files = ["-kernel", f"/proc/self/fd/{kernel}", "-initrd", f"/proc/self/fd/{initramfs}"]
    return [*argv, *files, "-append", f"{_KERNEL} {word}"]


def _raw(number: int) -> dict[str, Any]:
    return {"driver": "raw", "read-only": True, "file": _file(number, writable=False)}


def _layered(layers: list[int], *, writable: bool) -> dict[str, Any]:
    """Return the drive of a layer over those below it; the last one is the image, which is raw."""
    own, *below = layers
    if not below:
        return _raw(own)
    drive: dict[str, Any] = {"driver": "qcow2", "file": _file(own, writable=writable)}
    return {**drive, "read-only": not writable, "backing": _layered(below, writable=False)}


def _file(number: int, *, writable: bool) -> dict[str, Any]:
    """Return the node of a file, never flushed to the host's disk: no VM outlives a crash of the host."""
    cache = {"no-flush": True}
    return {
        "driver": "file", "filename": f"/dev/fdset/{number}", "locking": "off", "read-only": not writable,
        "cache": cache,
    }  # fmt: skip
