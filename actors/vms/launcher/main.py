"""The zygote, the process that VMs are forked from: a VM costs a fork, not the start of a python.

Its standard input is a socket to the service, and it ends when the service hangs up. Each message names a program and
carries descriptors: the program's standard input, from which it reads its arguments (by ``marshal``, as both ends are
the service's own python), its standard output and error, and any others. One process is always forked ahead, and
waits for the next message, so that a request need not wait for a fork. The arguments of a program are never in the
memory of the zygote, and so never in that of another program.
"""

from __future__ import annotations

import _socket
import gc
import os
import select
import struct

from .disk_files import keep, measure_unlinked, run_mapped
from .kernel import await_children, ignore_children, join_empty_keyring
from .syscall_filter import prepare
from .vm import attach, make, make_machine

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


_PROGRAMS: dict[bytes, Callable[..., int]] = {
    b"vm": make,
    b"machine": make_machine,
    b"attach": attach,
    b"mapped": run_mapped,
    b"disks": keep,
    b"unlinked": measure_unlinked,
}
_NAME_BYTES = 16
_DESCRIPTORS = 8
_EACH = "i"
_TAKEN, _HUNG_UP = b"1", b"0"
_PAUSE_MS = 20


def main() -> int:
    """Fork into the background and start programs on request.

    Returns an exit status to the caller at once: 1, with the reason on standard error, if no VM can be made.
    """
    try:
        join_empty_keyring()
        prepare()
    except OSError as error:
        os.write(2, f"{error}\n".encode())
        return 1
    if os.fork() != 0:
        return 0
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (1, 2):
        os.dup2(null, standard)
    ignore_children()
    gc.freeze()  # so that the forks copy no memory for the collector's marks
    requests = _socket.socket(fileno=0)
    while _serve_next(requests):
        pass
    return 0


def _serve_next(requests: _socket.socket) -> bool:
    """Fork a process that serves the next request; return once it has one, False if there is none.

    There is none when the service has hung up.
    """
    noted, note = os.pipe()
    try:
        if os.fork() == 0:
            os.close(noted)
            _serve_one(requests, note)
    except OSError:  # the host has no room for a process: the client sees its descriptors closed
        os.close(note)
        os.close(noted)
        return _refuse(requests)
    os.close(note)
    taken = os.read(noted, 1)
    os.close(noted)
    if taken == _HUNG_UP:
        return False
    _await_next(requests)
    return True


def _await_next(requests: _socket.socket) -> None:
    """Wait a moment for the next request, for a fork would take CPU from the program that has begun."""
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.poll(_PAUSE_MS)


def _refuse(requests: _socket.socket) -> bool:
    """Close the descriptors of the next request; tell if there was one."""
    program, descriptors = _receive(requests)
    for descriptor in descriptors:
        os.close(descriptor)
    return bool(program)


def _receive(requests: _socket.socket) -> tuple[bytes, list[int]]:
    """Return a program's name and its descriptors."""
    program, extra, _, _ = requests.recvmsg(_NAME_BYTES, _socket.CMSG_SPACE(_DESCRIPTORS * struct.calcsize(_EACH)))
    return program, [number for _, _, sent in extra for (number,) in struct.iter_unpack(_EACH, sent)]


def _serve_one(requests: _socket.socket, note: int) -> NoReturn:
    """Wait for a request, note that it has come or that none will, and run its program."""
    status = 1
    try:
        os.setsid()
        await_children()
        program, descriptors = _receive(requests)
        _tell(note, _TAKEN if program else _HUNG_UP)
        if not program:
            os._exit(0)
        for standard, descriptor in enumerate(descriptors[:3]):
            os.dup2(descriptor, standard)
            os.close(descriptor)
        for descriptor in descriptors[3:]:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function's own argument
        status = _PROGRAMS[program](*descriptors[3:])
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(status)


def _tell(note: int, word: bytes) -> None:
    """Let the zygote go on."""
    try:
        os.write(note, word)
    except BrokenPipeError:  # it was killed; this request is still served
        return
    os.close(note)
