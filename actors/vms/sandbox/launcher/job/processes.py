"""The processes of a job's command: each runs in the job's namespaces, below those of the service.

The keeper is in the job's PID namespace and makes another one for the command. The command's init is PID 1 of that:
when the command ends, it ends too, and the kernel kills all processes that the command left. Both are made before the
command is known, while the service prepares the job.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import marshal
import os
import resource
import struct

from ..kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWNS,
    CLONE_NEWPID,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    close_all_but,
    mount,
    restore_signals,
    set_dumpable,
    set_title,
    unshare,
)
from ..shares import limit_of_job

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
_OOM_SCORE = 1000
_READY = b"ready"
_LENGTH = struct.Struct("I")
_MESSAGE_BYTES = 1024
_CREDENTIALS = struct.Struct("3i")
_NOT_STARTED = 127


class Processes:
    """The keeper and the init of a command, which wait for it.

    ``keeper`` is the keeper's id and ``init`` a pidfd of the command's init. ``output`` is the end of a pipe from which
    to read what the command prints. The keeper exits as the command does; signal N is 128 + N.
    """

    def __init__(self, limits: list[tuple[int, int, int]], groups: list[int]) -> None:
        """Start them. Raises OSError if they cannot be made.

        No descriptor is sent: the kernel counts those on their way by the user id that all VMs share.
        """
        self.output, output = os.pipe()
        self._init, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._init.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)  # tells the sender's id as it is here
        try:
            self.keeper = os.fork()
            if self.keeper == 0:
                self._init.close()
                os.close(self.output)
                _keep(limits, groups, output, theirs)
            theirs.close()
            message, credentials, _, _ = self._init.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(_CREDENTIALS.size))
            if message != _READY:
                os.waitpid(self.keeper, 0)
                raise OSError(message.decode() or "its processes were killed")
            self.init = os.pidfd_open(_CREDENTIALS.unpack(credentials[0][2])[0])
        except BaseException:
            self._init.close()
            os.close(self.output)
            raise
        finally:
            os.close(output)

    def start(self, spec: dict[str, Any]) -> None:
        """Let init start the command. Raises OSError if they were killed meanwhile."""
        content = marshal.dumps(spec)
        self._init.sendall(_LENGTH.pack(len(content)) + content)
        self._init.close()


def _keep(limits: list[tuple[int, int, int]], groups: list[int], output: int, service: _socket.socket) -> NoReturn:
    try:
        unshare(CLONE_NEWNS | CLONE_NEWPID)
        set_title(b"keeper")  # /proc will soon be that of the new PID namespace
        init = os.fork()
        if init == 0:
            _run_init(limits, groups, output, service)
        close_all_but()
        os._exit(_exit_code(os.waitpid(init, 0)[1]))
    except OSError as error:
        service.send(str(error).encode())
    finally:
        os._exit(1)


def _run_init(limits: list[tuple[int, int, int]], groups: list[int], output: int, service: _socket.socket) -> NoReturn:
    """Be PID 1: start the command, reap, pass TERM on to all processes, and exit as the command does."""
    waited = (_signal.SIGCHLD, _signal.SIGTERM)
    try:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, waited)
        service.send(_READY)
        spec = _received(service)
        command = os.fork()
        if command == 0:
            _execute(spec, limits, groups, output)
        close_all_but()
        set_title(b"init")
        while True:
            if _signal.sigwait(waited) == _signal.SIGTERM:
                try:
                    os.kill(-1, _signal.SIGTERM)
                except ProcessLookupError:
                    continue
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == command:
                    os._exit(_exit_code(ended[1]))
    finally:
        os._exit(_NOT_STARTED)


def _received(service: _socket.socket) -> dict[str, Any]:
    """Wait for the spec of the command, and return it. Raises EOFError if the service hangs up."""
    (size,) = _LENGTH.unpack(_exactly(service, _LENGTH.size))
    spec: dict[str, Any] = marshal.loads(_exactly(service, size))  # noqa: S302 - from the service itself
    return spec


def _exactly(service: _socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        if not (piece := service.recv(size - len(content))):
            raise EOFError
        content += piece
    return bytes(content)


def _execute(spec: dict[str, Any], limits: list[tuple[int, int, int]], groups: list[int], output: int) -> NoReturn:
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        for group in groups:
            os.write(group, b"0")
        unshare(CLONE_NEWCGROUP)
        for kind, soft, hard in limits:
            resource.setrlimit(kind, (soft, hard))
        most = min(spec["processes"], limit_of_job())
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.umask(0o022)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        restore_signals()
        set_dumpable(dumpable=True)  # so that it may write this file
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(b"%d" % _OOM_SCORE)
        os.chdir(spec["cwd"])
        shell = next((path for path in _SHELLS if os.access(path, os.X_OK)), _SHELLS[-1])
        os.execve(shell, [shell, *spec["arguments"]], spec["env"])  # noqa: S606 - the very point
    except OSError as error:
        os.write(2, f"the command cannot be started: {error}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
