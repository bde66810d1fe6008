"""The monitor process of a VM: it makes the VM's namespaces and disk, and the VM ends with it.

It is PID 1 of a PID namespace that holds the VM's own PID 1 and the program for its network, so they are killed with
it; if one of the two ends, it ends too. It also ends if the VM's folder is removed, because the VM could not be found
again. It and the VM's disk are in the outer user namespace, which bounds the VM's shares (``shares.py``); the VM is in
the inner one, which owns all its other namespaces.
"""

from __future__ import annotations

import fcntl
import os

from . import init, network, outer, shares
from .answer import answer
from .ids import as_root, become_root, own_id
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    child_ended,
    close_all_but,
    make_read_only,
    mount,
    set_dumpable,
    set_title,
    unshare,
)

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_CHECK_SECONDS = 5.0
_NAMESPACES = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_ID_BYTES = 16


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
    guest_process = _GuestProcess(spec, f"{disk}/outer", report)
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


class _GuestProcess:
    """The VM's PID 1 while it starts, in the VM's own namespaces."""

    def __init__(self, spec: dict[str, Any], root: str, report: int) -> None:
        """Make the namespaces, the network's too, and the process, which waits for ``go``. Raises OSError."""
        wait, self._go = os.pipe()
        self._progress, progress = os.pipe()

        def enter_namespaces() -> None:
            os.chdir(root)
            spec["offline"] = _offline_network()
            unshare(_NAMESPACES)
            network.raise_loopback()
            if spec["network"]:
                network.set_rules(spec["network"]["rules"])
            if os.fork() == 0:
                os.close(self._go)
                os.write(progress, own_id().ljust(_ID_BYTES))
                _run_guest(spec, wait, progress, report)

        status = as_root(shares.INNER_MAP, shares.INNER_MAP, enter_namespaces)
        os.close(wait)
        os.close(progress)
        if status != 0:
            message = "the namespaces of the VM cannot be made"
            raise OSError(message)
        self.pid = int(os.read(self._progress, _ID_BYTES) or os._exit(1))

    def go(self) -> None:
        """Let the process set up the VM; return when it can no longer fail."""
        os.write(self._go, b"1")
        os.close(self._go)
        if os.read(self._progress, 1) != b"1":
            os._exit(1)
        os.close(self._progress)


def _offline_network() -> int:
    """Make a network namespace with nothing but a loopback, and return a descriptor of it."""
    unshare(CLONE_NEWNET)
    network.raise_loopback()
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _run_guest(spec: dict[str, Any], wait: int, progress: int, report: int) -> NoReturn:
    try:
        if os.read(wait, 1) == b"1":
            outer.enter_root(spec)
            init.limit(user_namespaces=spec["user_namespaces"])
            os.write(progress, b"1")
            init.serve(spec["listener"], spec["control"], spec["offline"])
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(report, f"failed {error}\n".encode())
    finally:
        os._exit(1)
