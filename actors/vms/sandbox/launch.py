"""Park a VM, and attach a disk to it, by the launcher's programs."""

from __future__ import annotations

import os
import select
import socket
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any

from actors.vms.provider import VmError
from storage import error_reason

if TYPE_CHECKING:
    from actors.vms.sandbox.vm_folder import VmFolder
    from actors.vms.sandbox.zygote import Zygote
    from storage import Clock

_GREETING = b"SSH-"
_READY = b"ready"
_MIN_SECONDS = 0.001


def park(vm: VmFolder, spec: dict[str, Any], lock: int, zygote: Zygote, clock: Clock, deadline: float) -> socket.socket:
    """Start the VM that ``spec`` describes; return a connection on which its sshd has sent its greeting.

    Its processes hold the ``lock``, too. The connection is opened before the VM exists and waits in the listener's
    queue, so that sshd answers as soon as it runs. Raises VmError; the caller then ends what was started.
    """
    with ExitStack() as undo:
        listener = undo.enter_context(vm.listen("ssh", socket.SOCK_STREAM))
        control = undo.enter_context(vm.listen("control", socket.SOCK_SEQPACKET))
        connection = undo.enter_context(vm.connect(_left(clock, deadline)))
        with _run(vm, "vm", spec, zygote, [lock, listener.fileno(), control.fileno()]) as report:
            # From now on only the VM's processes hold the listeners: if they die, the queued connection is reset. If
            # this process held them too, the connection would wait until the deadline.
            listener.close()
            control.close()
            _await_ready(vm, report.fileno(), _left(clock, deadline))
        _await_greeting(vm, connection, _left(clock, deadline))
        undo.pop_all()
    return connection


def attach(vm: VmFolder, spec: dict[str, Any], zygote: Zygote, clock: Clock, deadline: float) -> None:
    """Attach the disk that ``spec`` describes to a parked VM.

    Raises VmError; the VM is then of no more use.
    """
    with vm.connect(_left(clock, deadline), "control", socket.SOCK_SEQPACKET) as control:
        control.settimeout(None)
        with _run(vm, "attach", spec, zygote, [control.fileno()]) as report:
            _await_ready(vm, report.fileno(), _left(clock, deadline))
        _await_ready(vm, control.fileno(), _left(clock, deadline))


def _run(vm: VmFolder, program: str, spec: dict[str, Any], zygote: Zygote, descriptors: list[int]) -> IO[bytes]:
    """Start a program of the launcher; return the pipe that it reports to."""
    read, write = os.pipe()
    report = os.fdopen(read, "rb", buffering=0)
    try:
        with (vm.folder / "log").open("ab") as log:
            zygote.start(program, spec, [write, log.fileno(), *descriptors])
    except BaseException:
        report.close()
        raise
    finally:
        os.close(write)
    return report


def _await_ready(vm: VmFolder, report: int, seconds: float) -> None:
    """Wait for the word ``ready`` on a descriptor. Raises VmError if another comes, or none."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if not poll.poll(seconds * 1000):
        message = f"VM {vm.id} did not start in time: {vm.log() or 'its log is empty'}"
        raise VmError(message)
    status, _, why = os.read(report, select.PIPE_BUF).partition(b"\n")[0].partition(b" ")
    if status != _READY:
        reason = ": ".join(filter(None, (why.decode(errors="replace"), vm.log())))
        message = f"VM {vm.id} could not be created: {reason or 'its launcher ended without a message'}"
        raise VmError(message)


def _await_greeting(vm: VmFolder, connection: socket.socket, seconds: float) -> None:
    """Wait for the first bytes of the SSH protocol, without consuming them."""
    connection.settimeout(seconds)
    try:
        greeting = connection.recv(len(_GREETING), socket.MSG_PEEK)
    except OSError as error:
        message = f"the sshd of VM {vm.id} does not answer: {error_reason(error)}"
        raise VmError(message) from error
    if greeting != _GREETING:
        message = f"the sshd of VM {vm.id} ended at once: run `/usr/sbin/sshd -t` in the base image to see why"
        raise VmError(message)
    connection.settimeout(None)


def _left(clock: Clock, deadline: float) -> float:
    return max(deadline - clock.monotonic(), _MIN_SECONDS)
