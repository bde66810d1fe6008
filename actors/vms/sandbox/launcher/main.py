"""The process that VMs are born of. It has their code in memory, so that a VM costs a fork and no start of a python.

Its standard input is a socket of the service's, and it ends when the service hangs up. Each message names a program and
brings descriptors: the program's standard input, on which it finds what it is told (``marshal``, the service's own
python on both ends), its standard output and error, and what else it wants. Nothing that one program is told is ever in
the memory of this process, and so in that of another program.
"""

from __future__ import annotations

import _socket
import os
import struct

from . import filter as calls
from . import inside, vm
from .kernel import await_children, forget_children, join_empty_keyring

TYPE_CHECKING = False  # the module of this name takes longer to import than all the others together
if TYPE_CHECKING:
    from typing import NoReturn

_PROGRAMS = {b"vm": vm.make, b"inside": inside.run}
_NAME_BYTES = 16
_DESCRIPTORS = 8
_EACH = "i"


def main() -> int:
    """Leave whoever started this, who need not wait for it, and start programs as they are asked for.

    Return an exit status at once: 1, with the reason on standard error, where no VM can be made.
    """
    try:
        join_empty_keyring()
        calls.prepare()
    except OSError as error:
        os.write(2, f"{error}\n".encode())
        return 1
    if os.fork() != 0:
        return 0
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (1, 2):
        os.dup2(null, standard)
    forget_children()
    requests = _socket.socket(fileno=0)
    while True:
        program, extra, _, _ = requests.recvmsg(_NAME_BYTES, _socket.CMSG_SPACE(_DESCRIPTORS * struct.calcsize(_EACH)))
        if not program:
            return 0
        descriptors = [number for _, _, sent in extra for (number,) in struct.iter_unpack(_EACH, sent)]
        try:
            if os.fork() == 0:
                _become(program, descriptors)
        except OSError:  # no process is to be had: whoever asked finds that nobody answers
            pass
        for descriptor in descriptors:
            os.close(descriptor)


def _become(program: bytes, descriptors: list[int]) -> NoReturn:
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
    except Exception as error:  # noqa: BLE001 - the rim of this process
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(status)
