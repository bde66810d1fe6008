"""QEMU on this host: found, tried, and its command line for a parked machine.

Only a boot under KVM proves that KVM works: its device and a VM made through it do not.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.vms.host.boot import TRIAL, BootFiles
from actors.vms.host.ids import MappedProgramFailed, run_mapped
from actors.vms.launcher.words import FIRST_FILE, READY, SSH_PORT
from actors.vms.provider import VmError
from storage import Shape, immutable

if TYPE_CHECKING:
    from actors.vms.host.ids import IdMap
    from actors.vms.settings import QemuSettings


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


PARKED = Shape(cpu=1, memory_gb=1)
"""The shape of a machine that waits. The job's is no smaller, and what is missing is plugged in."""

MOST_CPUS, MOST_MEMORY_GB = 64, 256
"""Room for what may be plugged in: more would not fit in the addresses of all processors."""

DISK_PORT = "job-port"
"""The slot for the job's disk."""

SERVICES_PORT = "services-port"
"""The slot for the disks of services, which has room for eight."""

_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_KERNEL = (
    "console=ttyS0 quiet loglevel=4 panic=-1 reboot=t no_timer_check mitigations=off "
    "memhp_default_state=online swiotlb=noforce noreplace-smp cryptomgr.notests"
)
"""A kernel that panics ends QEMU. On a host under load, one that checks its timer may find it broken.

Plugged memory is for use at once; for its sake the kernel would keep 64 MB for devices that cannot reach it. Its code
is for several processors from the start: to rewrite it as the second one comes takes an emulated machine 0.3 s. So do
the kernel's tests of its own ciphers.
"""

_CLOCK, _EMULATED_CLOCK = "tsc=reliable", "clocksource=hpet tsc=unstable lpj=10000000"
"""An emulated kernel counts by a timer whose rate it knows.

On a host under load it may measure its processor's clock wrong by a factor of ten. The loops of a delay are not
measured either: no device of a guest has to wait.
"""

_TCG_CACHE_MB = 256
_ADDRESS = "10.0.2.15"


def command_line(program: str, *, kvm: bool) -> list[str]:
    """Return the argv of QEMU: no device that is not needed, and files by descriptor.

    From `FIRST_FILE` on its descriptors are the kernel, the first root, the base image's disk, the seed and a socket on
    which it takes commands.
    """
    kernel, initramfs, base, seed, commands = range(FIRST_FILE, FIRST_FILE + 5)
    argv = [program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-sandbox", _SANDBOX]
    argv += ["-machine", f"q35,usb=off,smbus=off,sata=off,i8042=off,smm=off,vmport=off,hpet={'off' if kvm else 'on'}"]
    argv += _processors(kvm=kvm)
    argv += ["-smp", f"cpus={PARKED.cpu},maxcpus={MOST_CPUS}"]
    argv += ["-m", f"size={PARKED.memory_gb}G,slots=2,maxmem={MOST_MEMORY_GB}G"]
    argv += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    argv += [
        "-chardev",
        f"socket,id=commands,fd={commands},server=on,wait=off",
        "-mon",
        "chardev=commands,mode=control",
    ]
    argv += ["-kernel", f"/proc/self/fd/{kernel}", "-initrd", f"/proc/self/fd/{initramfs}"]
    argv += ["-append", _kernel_arguments(kvm=kvm)]
    for name, number in (("base", base), ("seed", seed)):
        drive = {"driver": "raw", "read-only": True, "file": file_node(number, writable=False)}
        argv += ["-add-fd", f"fd={number},set={number}"]
        argv += ["-blockdev", json.dumps({"node-name": name, **drive})]
        argv += ["-device", f"virtio-blk-pci,drive={name}"]
    for number, port in enumerate((DISK_PORT, SERVICES_PORT), start=1):
        argv += ["-device", f"pcie-root-port,id={port},chassis={number},slot={number}"]
    argv += ["-netdev", f"user,id=net,ipv6=off,hostfwd=tcp:127.0.0.1:{SSH_PORT}-{_ADDRESS}:{SSH_PORT}"]
    return [*argv, "-device", "virtio-net-pci,netdev=net,romfile="]


def trial(program: str, kernel: int, initramfs: int, word: str, *, kvm: bool) -> list[str]:
    """Return the argv of a machine without disks and network, which ends at once."""
    argv = [program, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-sandbox", _SANDBOX]
    argv += ["-machine", "q35", *_processors(kvm=kvm), "-m", "256M", "-serial", "stdio"]
    files = ["-kernel", f"/proc/self/fd/{kernel}", "-initrd", f"/proc/self/fd/{initramfs}"]
    return [*argv, *files, "-append", f"{_kernel_arguments(kvm=kvm)} {word}"]


def _kernel_arguments(*, kvm: bool) -> str:
    """Return the kernel's command line."""
    return f"{_KERNEL} {_CLOCK if kvm else _EMULATED_CLOCK}"


def _processors(*, kvm: bool) -> list[str]:
    if kvm:
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", f"tcg,thread=multi,tb-size={_TCG_CACHE_MB}", "-cpu", "max"]


def file_node(number: int, *, writable: bool) -> dict[str, Any]:
    """Return the node of a set of descriptors with one file.

    It is never flushed to the host's disk, because no VM outlives a crash of the host.
    """
    cache = {"no-flush": True}
    return {
        "driver": "file", "filename": f"/dev/fdset/{number}", "locking": "off", "read-only": not writable,
        "cache": cache,
    }  # fmt: skip


@immutable
class Prepared:
    """The path of QEMU, what machines boot, and how they run."""

    program: str
    boot: BootFiles
    accelerator: Accelerator


class Preparation:
    """The needs of machines, found when first asked for. Safe in any thread."""

    def __init__(self, folder: Path, settings: QemuSettings, idmap: IdMap) -> None:
        """Keep the files that machines boot in ``folder``."""
        self._folder = folder
        self._settings = settings
        self._idmap = idmap
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None

    def done(self) -> Prepared:
        """Return what machines need, after a trial boot the first time. Raises VmError."""
        with self._lock:
            if self._prepared is None:
                program = require_program()
                boot = BootFiles.make(self._folder, self._settings.system)
                self._prepared = Prepared(program, boot, self._accelerator(program, boot))
            return self._prepared

    def _accelerator(self, program: str, boot: BootFiles) -> Accelerator:
        if self._settings.acceleration == "auto":
            return find_accelerator(program, boot, self._idmap)
        return Accelerator(self._settings.acceleration == "kvm", "the configuration says so")
