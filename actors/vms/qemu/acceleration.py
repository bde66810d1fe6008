"""QEMU on this host, and the way in which it runs machines.

Only a boot under KVM proves that KVM works: its device and a VM made through it do not.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host.ids import MappedProgramFailed, run_mapped
from actors.vms.launcher.words import READY
from actors.vms.provider import VmError
from actors.vms.qemu.command_line import trial
from actors.vms.qemu.initramfs import TRIAL
from storage import immutable

if TYPE_CHECKING:
    from actors.vms.host.ids import IdMap
    from actors.vms.qemu.boot_files import BootFiles

_PROGRAM = "qemu-system-x86_64"
KVM = Path("/dev/kvm")

_OTHERS_READ_WRITE = 0o006
_BOOT_SECONDS = 1.0


@immutable
class Accelerator:
    """The way in which machines run here; ``why`` is a sentence for the operator."""

    kvm: bool
    why: str


def require_program() -> str:
    """Return the path of QEMU. Raises VmError with the command that installs it."""
    if program := shutil.which(_PROGRAM):
        return program
    message = (
        f"{_PROGRAM} is not installed: "
        "run `sudo apt-get install -y --no-install-recommends qemu-system-x86 qemu-utils`"
    )  # fmt: skip
    raise VmError(message)


def find_accelerator(program: str, boot: BootFiles, idmap: IdMap, device: Path = KVM) -> Accelerator:
    """Try a boot under KVM, as the user that machines run under."""
    try:
        mode = stat.S_IMODE(device.stat().st_mode)
    except FileNotFoundError:
        return Accelerator(kvm=False, why=f"{device} is missing: this host has no KVM, or no access to it")
    if mode & _OTHERS_READ_WRITE != _OTHERS_READ_WRITE:
        return Accelerator(kvm=False, why=f"machines cannot use {device}: run `sudo chmod 0666 {device}`")
    files = [os.open(path, os.O_RDONLY) for path in (boot.kernel, boot.initramfs)]
    began = time.monotonic()
    try:
        argv = trial(program, files[0], files[1], TRIAL, kvm=True)
        printed = run_mapped(argv, idmap=idmap, cwd=Path("/"), pass_fds=files, timeout=_BOOT_SECONDS)
    except MappedProgramFailed as error:
        return Accelerator(kvm=False, why=f"no machine boots under KVM here: {str(error).rpartition(': ')[2]}")
    except VmError as error:
        return Accelerator(kvm=False, why=str(error))
    finally:
        for each in files:
            os.close(each)
    if READY not in printed:
        return Accelerator(kvm=False, why="a machine under KVM ended before it had booted")
    return Accelerator(kvm=True, why=f"a machine boots under KVM in {time.monotonic() - began:.2f} s")
