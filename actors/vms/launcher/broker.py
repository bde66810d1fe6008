"""The broker, which runs the programs of VMs for a service that is too confined to run them.

Usage: ``python -I -S broker.py SOCKET`` serves, ``broker.py SOCKET PROGRAM [ARGUMENT...]`` asks it to run a program.
A process that makes user namespaces and calls newuidmap cannot be confined much, but a server of HTTP should be. So the
installed service (``systemd/``) runs confined and asks this process, which runs three programs and nothing else: each
makes a user namespace, or joins a VM's, and does its work as root of that. This file is run by path and imports only
the standard library.

A request is one message: descriptors, the working directory first, and, in the format of ``marshal``, the program, its
arguments and the numbers for its descriptors. The answer is the program's exit status, one byte. If the client hangs up
first, the program is killed.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

FAILED = 125
"""The exit status of the client if the program was not started."""

BROKER_VARIABLE = "CI_DAEMON_STARTER"
"""The environment variable with the broker's socket; if it is set, the broker starts the programs.

Its name is older than the broker's, and stays for the drop-ins of installed units.
"""

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""The environment of programs around VMs."""

ROOT_ENVIRONMENT = {**ENVIRONMENT, "HOME": "/", "LC_ALL": "C.UTF-8"}
"""The environment of programs that run as root of a user namespace."""

_LAUNCHER = os.path.dirname(os.path.abspath(__file__))
_REQUEST_BYTES = 1 << 17
_DESCRIPTORS = 64


def launcher_argv(program: str, *arguments: str) -> list[str]:
    """Return the argv that runs ``main``, ``flatten`` or ``enter``, by the broker if there is one.

    Only ``enter`` takes arguments. The programs run without site-packages and the service's own modules, so that they
    start in 7 ms rather than in a second.
    """
    if address := os.environ.get(BROKER_VARIABLE):
        return [sys.executable, "-I", "-S", os.path.abspath(__file__), address, program, *arguments]
    return argv_of(program, list(arguments))


def argv_of(program: str, arguments: list[str]) -> list[str]:
    """Return the argv of a program by name. Raises LookupError if there is none.

    A broker runs on over an upgrade, and then starts the programs of the new release. So the names of the programs, and
    of their files, stay the same from release to release.
    """
    if program == "enter":
        return [sys.executable, "-I", "-S", f"{_LAUNCHER}/enter.py", *arguments]
    if program in {"main", "flatten"} and not arguments:
        folder = os.path.dirname(_LAUNCHER)
        run = f"import os, sys; sys.path[:0] = [{folder!r}]; from launcher.{program} import main; os._exit(main())"
        return [sys.executable, "-I", "-S", "-c", run]
    raise LookupError(program)


def ask(address: str, program: str, *arguments: str) -> int:
    """Run a program with the descriptors and working directory of this process; return its exit status."""
    listed = (int(name) for name in os.listdir("/proc/self/fd"))
    there = (number for number in listed if os.path.exists(f"/proc/self/fd/{number}"))
    numbers = sorted(there)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as broker:
        try:
            broker.connect(address)
        except OSError as error:
            os.write(
                2, f"{address} does not answer ({error.strerror}): run `systemctl restart ci-daemon-vms`\n".encode()
            )
            return FAILED
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
        socket.send_fds(broker, [marshal.dumps((program, list(arguments), numbers))], [folder, *numbers])
        for each in (folder, *numbers):
            os.close(each)
        return (broker.recv(1) or bytes([FAILED]))[0]


def serve(address: str) -> NoReturn:
    """Serve clients that have this process's user id, each in a process of its own, for ever."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with suppress(FileNotFoundError):
        os.unlink(address)
    os.umask(0o177)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(128)
    os.umask(0o022)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            status = FAILED
            try:
                status = _answer(connection)
            finally:
                os._exit(status)
        connection.close()


def _answer(connection: socket.socket) -> int:
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    if struct.unpack("3i", peer)[1] != os.geteuid():
        return FAILED
    request, descriptors, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, _DESCRIPTORS)
    program, arguments, numbers = marshal.loads(request)  # noqa: S302 - from this very user
    argv = argv_of(program, arguments)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _become(argv, descriptors, numbers)
    ended = os.pidfd_open(pid)
    for each in descriptors:
        os.close(each)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(connection, select.POLLHUP)
    if ended not in dict(poll.poll()):
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        connection.send(bytes([status if status >= 0 else 128 - status]))
    return 0


def _become(argv: list[str], descriptors: list[int], numbers: list[int]) -> NoReturn:
    """Become the program, with its descriptors on their numbers: copied above all of them, then down."""
    try:
        os.setsid()
        os.fchdir(descriptors[0])
        free = max([*numbers, *descriptors]) + 1
        for offset, each in enumerate(descriptors[1:]):
            os.dup2(each, free + offset)
        os.closerange(0, free)
        for offset, number in enumerate(numbers):
            os.dup2(free + offset, number)
        for number in range(free, free + len(numbers)):
            if number not in numbers:
                os.close(number)
        os.execve(argv[0], argv, ROOT_ENVIRONMENT)  # noqa: S606 - the very point
    finally:
        os._exit(FAILED)


if __name__ == "__main__":
    if len(sys.argv) == 2:  # noqa: PLR2004 - no program is asked for
        serve(sys.argv[1])
    os._exit(ask(*sys.argv[1:]))
