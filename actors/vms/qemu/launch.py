"""Start the processes of a machine and wait until its guest is ready."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actors.vms.provider import VmError

if TYPE_CHECKING:
    from actors.vms.sandbox.vm_folder import VmFolder
    from actors.vms.sandbox.zygote import Zygote

__all__ = ["CONSOLE", "console_end", "start"]

CONSOLE = "console"
"""The file of a VM's folder that has what the guest printed."""

_SHOWN_CHARS = 2000


def start(vm: VmFolder, spec: dict[str, Any], zygote: Zygote, seconds: float) -> None:
    """Start the machine that ``spec`` describes; return when a job can start in it.

    Raises VmError with the end of its console; the caller then ends what was started.
    """
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as report:
        try:
            with vm.listen("ssh", socket.SOCK_STREAM) as listener, (vm.folder / "log").open("ab") as log:
                lock = vm.lock()
                try:
                    zygote.start("machine", spec, [write, log.fileno(), lock, listener.fileno()])
                finally:
                    os.close(lock)
        finally:
            os.close(write)
        poll = select.poll()
        poll.register(report, select.POLLIN)
        if not poll.poll(seconds * 1000):
            message = f"VM {vm.id} did not start in time: {console_end(vm) or vm.log() or 'its console is empty'}"
            raise VmError(message)
        word, _, why = report.read(select.PIPE_BUF).decode(errors="replace").strip().partition(" ")
    if word != "ready":
        reason = "\n".join(filter(None, (why, vm.log(), console_end(vm))))
        message = f"VM {vm.id} could not be created: {reason or 'its launcher ended without a message'}"
        raise VmError(message)


def console_end(vm: VmFolder) -> str:
    """Return the end of what the guest has printed on its console."""
    for name in (f"{CONSOLE}.later", CONSOLE):
        with suppress(FileNotFoundError):
            if printed := (vm.folder / name).read_text(encoding="utf-8", errors="replace").strip():
                return printed[-_SHOWN_CHARS:]
    return ""
