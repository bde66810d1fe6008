"""Attach a disk to a parked VM: mount it beside the VM, then hand it over (engine.md, "Parked VMs").

The mount is made in the monitor's namespaces, by a process with the service's ids: only that may enter the host's
folders above the layers, and overlayfs takes no layer from another mount namespace.
"""

from __future__ import annotations

import _socket
import array
import marshal
import os
import sys

from .ids import become_root
from .kernel import copy_of_mount, join_descriptor, mount
from .shares import NETWORK_PROGRAM_ID

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any

_REPORT, _LOG = 1, 2


def attach(control: int) -> int:
    """Send the disk of the spec to the VM through its ``control`` socket, where it answers the service.

    Reports ``ready`` or ``failed WHY``; returns an exit status.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    try:
        groups = [os.open(join_file, _mode(join_file)) for join_file in spec["cgroups"]]
        disk = _mounted(spec)
        for number, join_file in enumerate(spec["cgroups"]):
            if _mode(join_file) == os.O_PATH:
                groups[number] = os.open(f"/proc/self/fd/{groups[number]}", os.O_WRONLY)
        socket = _socket.socket(fileno=control)
        output = os.open(f"{disk}/command/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        descriptors = array.array("i", [copy_of_mount(f"{disk}/root"), output, _LOG, *groups])
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors.tobytes())
        os.setresuid(NETWORK_PROGRAM_ID, 0, 0)  # what is on its way counts for an id that no VM has
        socket.sendmsg([marshal.dumps(spec["job"])], [rights])
        os.write(_REPORT, b"ready\n")
    except OSError as error:
        os.write(_REPORT, f"failed {error}\n".encode())
        return 1
    return 0


def _mode(join_file: str) -> int:
    """Return the mode in which the service opens the file through which processes join a group.

    In version 1 (``tasks``), a user other than root may move only its own processes, by a file that it has opened.
    So the VM's root opens it again.
    """
    return os.O_PATH if join_file.endswith("/tasks") else os.O_WRONLY


def _mounted(spec: dict[str, Any]) -> str:
    """Mount the disk in the monitor's mount namespace; return a path to the VM's folder."""
    for namespace in [os.open(f"/proc/{spec['monitor']}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]:
        join_descriptor(namespace, 0)
    layers = [os.open(path, os.O_PATH) for path in spec["layers"]]
    disk = f"/proc/self/fd/{os.open(str(spec['disk']), os.O_PATH)}"
    become_root()
    os.umask(0o022)
    with open(f"{disk}/chain", "wb") as file:
        file.write(spec["chain"])
    lower = ":".join(f"/proc/self/fd/{layer}" for layer in layers)
    options = f"userxattr,volatile,upperdir={disk}/upper,workdir={disk}/work,lowerdir={lower}"
    mount("overlay", f"{disk}/root", "overlay", data=options)
    return disk
