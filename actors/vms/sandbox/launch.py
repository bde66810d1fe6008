"""Start a VM's launcher and wait until the VM speaks SSH."""

from __future__ import annotations

import marshal
import os
import select
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actors.vms.provider import VmError
from actors.vms.sandbox.program import ENVIRONMENT, command

if TYPE_CHECKING:
    from actors.vms.sandbox.vm import Vm
    from storage import Clock

__all__ = ["launch"]

_GREETING = b"SSH-"
_READY = b"ready"
_SMALLEST_SECONDS = 0.001


def launch(vm: Vm, spec: dict[str, Any], clock: Clock, deadline: float) -> socket.socket:
    """Start the VM that ``spec`` describes and return a connection on which its sshd has begun to speak.

    The connection is opened before there is a VM: it waits in the listener's queue, so that no time goes by between the
    VM's being there and its being asked. Raises VmError; what was started by then is for the caller to end.
    """
    with vm.listen() as listener:
        connection = vm.connect(_left(clock, deadline))
        try:
            with _start(vm, spec, listener) as launcher:
                try:
                    _await_ready(vm, launcher, _left(clock, deadline))
                except BaseException:
                    launcher.kill()
                    raise
            _await_greeting(vm, connection, _left(clock, deadline))
        except BaseException:
            connection.close()
            raise
    return connection


def _start(vm: Vm, spec: dict[str, Any], listener: socket.socket) -> subprocess.Popen[bytes]:
    lock = vm.lock()
    try:
        with (vm.folder / "log").open("ab") as log:
            launcher = subprocess.Popen(
                command("main"),
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(lock, listener.fileno()),
                start_new_session=True,
            )
    finally:
        os.close(lock)
    assert launcher.stdin  # noqa: S101 - asked for above
    with suppress(BrokenPipeError), launcher.stdin as stdin:
        stdin.write(marshal.dumps({**spec, "lock": lock, "listener": listener.fileno()}))
    return launcher


def _await_ready(vm: Vm, launcher: subprocess.Popen[bytes], seconds: float) -> None:
    assert launcher.stdout  # noqa: S101 - asked for in _start
    report = launcher.stdout.fileno()
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if not poll.poll(seconds * 1000):
        message = f"VM {vm.id} was not there in time: {vm.log() or 'it said nothing'}"
        raise VmError(message)
    said, _, why = os.read(report, select.PIPE_BUF).partition(b"\n")[0].partition(b" ")
    if said != _READY:
        reason = ": ".join(filter(None, (why.decode(errors="replace"), vm.log())))
        message = f"VM {vm.id} could not be made: {reason or 'its launcher ended without a word'}"
        raise VmError(message)


def _await_greeting(vm: Vm, connection: socket.socket, seconds: float) -> None:
    """Wait for the first bytes of the SSH protocol and leave them there."""
    connection.settimeout(seconds)
    try:
        greeting = connection.recv(len(_GREETING), socket.MSG_PEEK)
    except OSError as error:
        message = f"the sshd of VM {vm.id} does not answer: {error}"
        raise VmError(message) from error
    if greeting != _GREETING:
        message = f"the sshd of VM {vm.id} ended at once: run `/usr/sbin/sshd -t` in its image to see why"
        raise VmError(message)
    connection.settimeout(None)


def _left(clock: Clock, deadline: float) -> float:
    return max(deadline - clock.monotonic(), _SMALLEST_SECONDS)
