"""The root of a job: its disk, file systems and identity (engine.md, "Parked VMs").

All paths here are the job's own. Once its disk is the root, no path leads to the outer layer or to the host, so the
links in a snapshot cannot lead out of the VM.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from ..kernel import MS_BIND, MS_MOVE, MS_NODEV, MS_NOSUID, mount, pivot_root, unmount
from ..trees import make_directory, make_mount_point, mount_devices, mount_processes, mount_system, write_file

HOSTNAME = "vm"

_TMP_MODE = 0o1777
_STAGED = ("proc", "dev")
_HOSTS = f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback\n"


def stage(folder: str) -> None:
    """Mount in ``folder`` what needs nothing of the job, before its disk comes. Raises OSError.

    The terminals are those of the outer layer, so that a shell that enters from there has one.
    """
    os.umask(0)
    for part in _STAGED:
        os.mkdir(f"{folder}/{part}")
    mount_processes(f"{folder}/proc")
    mount_devices("/dev", f"{folder}/dev")
    mount("/dev/pts", f"{folder}/dev/pts", flags=MS_BIND)
    os.mkdir(f"{folder}/dev/shm", _TMP_MODE)  # noqa: S108 - the guest's own


def enter_root(disk: str, staged: str, memory_bytes: int, resolver: str | None) -> None:
    """Make the job's disk, a mount at ``disk``, the root of this mount namespace. Raises OSError.

    What is mounted in the folder ``staged`` moves there.
    """
    os.chdir(disk)
    outer = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pivot_root(".", ".")
    os.fchdir(outer)
    os.umask(0)
    for path in ("/proc", "/sys", "/dev", "/run", "/workspace"):
        make_mount_point(path, 0o755)
    make_directory("/tmp", 0o755)  # noqa: S108 - the guest's own
    for part in _STAGED:
        mount(f"{staged[1:]}/{part}", f"/{part}", flags=MS_MOVE)
    mount_system("/sys")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={memory_bytes // 2}")  # noqa: S108
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={memory_bytes // 4}")
    os.mkdir("/run/lock", _TMP_MODE)
    unmount(".")
    os.chdir("/")
    os.close(outer)
    os.umask(0o022)
    _identify(resolver)


def _identify(resolver: str | None) -> None:
    """Write the VM's identity to the disk.

    What an earlier job left there, such as `/etc` as a link to a file system that takes no files, is its own affair:
    the command runs without what cannot be written.
    """
    with suppress(OSError):
        if stat.S_IMODE(os.stat("/tmp").st_mode) != _TMP_MODE:  # noqa: S108
            os.chmod("/tmp", _TMP_MODE)  # noqa: S108
    with suppress(OSError):
        make_directory("/etc", 0o755)
    identity = {
        "/etc/hosts": _HOSTS,
        "/etc/hostname": f"{HOSTNAME}\n",
        "/etc/resolv.conf": f"nameserver {resolver}\noptions edns0\n" if resolver else "",
    }
    for path, text in identity.items():
        with suppress(OSError):
            write_file(path, text)
