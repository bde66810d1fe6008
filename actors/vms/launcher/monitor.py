"""The monitor process of a VM: it makes the VM's namespaces and disk, and the VM ends with it.

It is PID 1 of a PID namespace that holds the VM's own PID 1 and the program for its network, so they are killed with
it; if one of the two ends, it ends too. It also ends if the VM's folder is removed, because the VM could not be found
again. It and the VM's disk are in the outer user namespace, which bounds the VM's shares (``shares.py``); the VM is in
the inner one, which owns all its other namespaces.
"""

from __future__ import annotations

import fcntl
import os

from . import network, shares
from .answer import answer
from .guest_process import GuestProcess
from .ids import become_root
from .kernel import (
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    child_ended,
    close_all_but,
    make_read_only,
    mount,
    set_dumpable,
    set_title,
)

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_CHECK_SECONDS = 5.0


def run(spec: dict[str, Any], mapped: int, report: int, log: int) -> NoReturn:
    """Make the VM and run until it ends. Writes ``ready`` or ``failed WHY`` to ``report``."""
    try:
        _make(spec, mapped, report, log)
        answer(report, b"ready\n")
        os.chdir("/")
        close_all_but(spec["lock"], spec["base"])
        set_title(f"ci-daemon VM {spec['id']}".encode())
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        answer(report, f"failed {error}\n".encode())
    else:
        while not child_ended(_CHECK_SECONDS) and os.fstat(spec["lock"]).st_nlink:
            pass
    finally:
        os._exit(1)


def _make(spec: dict[str, Any], mapped: int, report: int, log: int) -> None:
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    spec["base"] = base = os.open(spec["base"], os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(base, fcntl.LOCK_SH)  # held as long as the VM lives, so that nobody removes the tree
    disks = os.open(spec["disks"], os.O_PATH)
    if os.read(mapped, 1) != b"1":
        os._exit(1)
    become_root()
    set_dumpable(dumpable=True)
    os.umask(0o022)
    disk = _make_disk(disks, spec["id"])
    network_program = network.NetworkProgram(spec["network"], disk, log) if spec["network"] else None
    mount(f"/proc/self/fd/{base}", f"{disk}/outer", flags=MS_BIND)
    make_read_only(f"{disk}/outer")
    shares.bound(spec["share_of_limits"], spec["share_of_objects"])
    guest_process = GuestProcess(spec, f"{disk}/outer", report)
    if network_program:
        network.publish(guest_process.pid, disk)
        network_program.go()
    guest_process.go()
    if network_program:
        network_program.wait()


def _make_disk(disks: int, name: str) -> str:
    """Make the VM's folder, with the folders of overlayfs in it, and return a path to it.

    The path goes through a descriptor, because the VM's root may not enter the host's folders above it.
    """
    os.mkdir(name, 0o755, dir_fd=disks)
    disk = f"/proc/self/fd/{os.open(name, os.O_PATH, dir_fd=disks)}"
    for part in ("upper", "work", "root", "outer", "command"):
        os.mkdir(f"{disk}/{part}", 0o755)
    return disk
