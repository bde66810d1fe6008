"""The zygote, the process that VMs are forked from: a VM costs a fork, not the start of a python.

Its standard input is a socket to the service, and it ends when the service hangs up. Each message names a program and
carries descriptors: the program's standard input, from which it reads its arguments (by ``marshal``, as both ends are
the service's own python), its standard output and error, and any others. The arguments of a program are never in the
memory of this process, and so never in that of another program.
"""

from __future__ import annotations

import _socket
import gc
import os
import struct

from . import attach, disk_files, mapped_program, syscall_filter, unlinked, vm
from .kernel import await_children, ignore_children, join_empty_keyring

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_PROGRAMS: dict[bytes, Callable[..., int]] = {
    b"vm": vm.make,
    b"attach": attach.attach,
    b"mapped": mapped_program.run,
    b"disks": disk_files.run,
    b"unlinked": unlinked.run,
}
_NAME_BYTES = 16
_DESCRIPTORS = 8
_EACH = "i"


def main() -> int:
    """Fork into the background and start programs on request.

    Returns an exit status to the caller at once: 1, with the reason on standard error, if no VM can be made.
    """
    try:
        join_empty_keyring()
        syscall_filter.prepare()
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
    while True:
        program, extra, _, _ = requests.recvmsg(_NAME_BYTES, _socket.CMSG_SPACE(_DESCRIPTORS * struct.calcsize(_EACH)))
        if not program:
            return 0
        descriptors = [number for _, _, sent in extra for (number,) in struct.iter_unpack(_EACH, sent)]
        try:
            if os.fork() == 0:
                _run_program(program, descriptors)
        except OSError:  # the host has no room for a process: the client sees its descriptors closed
            pass
        for descriptor in descriptors:
            os.close(descriptor)


def _run_program(program: bytes, descriptors: list[int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        await_children()
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
