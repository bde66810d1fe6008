"""Start the processes of a machine, give it its job's parts, and let it end."""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from actors.vms.provider import VmError, VmLost
from actors.vms.qemu.qmp import Qmp
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.vms.host.vm_folder import VmFolder
    from actors.vms.host.zygote import Zygote

CONSOLE = "console"
"""The file of a VM's folder that has what the guest printed."""

_COMMANDS = "commands"
"""The socket of a VM's folder on which QEMU takes commands."""

_READY = b"ready"
_SHOWN_CHARS = 4000
"""The end of a console that is shown: a panic of the kernel, with what led to it."""


def park(vm: VmFolder, spec: dict[str, Any], lock: int, zygote: Zygote, seconds: float) -> None:
    """Start the machine that ``spec`` describes; return when its sshd is served.

    Its processes hold the ``lock``, too. Raises VmError with the end of its console; the caller then ends what was
    started.
    """
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as report, ExitStack() as opened:
        opened.callback(os.close, write)
        log = opened.enter_context((vm.folder / "log").open("ab"))
        kinds = {"ssh": socket.SOCK_STREAM, "control": socket.SOCK_SEQPACKET, _COMMANDS: socket.SOCK_STREAM}
        listeners = [opened.enter_context(vm.listen(name, kind)) for name, kind in kinds.items()]
        zygote.start("machine", spec, [write, log.fileno(), lock, *(each.fileno() for each in listeners)])
        opened.close()  # so that the report ends with the machine's processes
        _await_ready(vm, report.fileno(), seconds)


def attach(vm: VmFolder, job: dict[str, Any], plug: Callable[[Qmp], None], seconds: float) -> None:
    """Tell the monitor of the ``job``, plug in its parts, and return when the guest has them.

    Raises VmError.
    """
    with vm.connect(seconds, "control", socket.SOCK_SEQPACKET) as control:
        control.send(marshal.dumps(job))
        with commands(vm, seconds) as qmp:
            plug(qmp)
        _await_ready(vm, control.fileno(), seconds)


def commands(vm: VmFolder, seconds: float) -> Qmp:
    """Return a connection to the VM's QEMU, for commands that take up to ``seconds`` together.

    Raises VmError.
    """
    try:
        return Qmp(vm.connect(seconds, _COMMANDS), seconds)
    except OSError as error:
        message = f"QEMU of VM {vm.id} does not answer: {error_reason(error)}"
        raise VmError(message) from error


def let_end(vm: VmFolder, seconds: float) -> None:
    """Let QEMU complete its files and end. Raises VmError if it does not."""
    with suppress(VmLost, ProcessLookupError):
        monitor = os.pidfd_open(vm.monitor())
        try:
            signal.pidfd_send_signal(monitor, signal.SIGTERM)
            poll = select.poll()
            poll.register(monitor, select.POLLIN)
            if not poll.poll(seconds * 1000):
                message = f"QEMU of VM {vm.id} does not end: see {vm.folder / 'log'}"
                raise VmError(message)
        finally:
            os.close(monitor)


def console_end(vm: VmFolder) -> str:
    """Return the end of what the guest has printed on its console."""
    for name in (f"{CONSOLE}.later", CONSOLE):
        with suppress(FileNotFoundError):
            if printed := (vm.folder / name).read_text(encoding="utf-8", errors="replace").strip():
                return printed[-_SHOWN_CHARS:]
    return ""


def _await_ready(vm: VmFolder, report: int, seconds: float) -> None:
    """Wait for the word ``ready`` on a descriptor. Raises VmError if another comes, or none."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if not poll.poll(seconds * 1000):
        message = f"VM {vm.id} did not start in time: {console_end(vm) or vm.log() or 'its console is empty'}"
        raise VmError(message)
    word, _, why = os.read(report, select.PIPE_BUF).strip().partition(b" ")
    if word != _READY:
        reason = "\n".join(filter(None, (why.decode(errors="replace"), vm.log(), console_end(vm))))
        message = f"VM {vm.id} could not be created: {reason or 'its launcher ended without a message'}"
        raise VmError(message)
