"""PID 1 of a VM: it serves every connection with an sshd, and starts the job's supervisor.

It begins as a process in the VM's own namespaces, which waits until they are set up. The kernel reaps its children
(SIGCHLD is ignored) and protects it from every signal from inside the VM (each has its default action, to which PID 1
is immune). It is not dumpable, and its memory belongs to the host's user namespace, so that root of the VM can neither
trace it nor read its ``/proc`` entry.
"""

from __future__ import annotations

import _socket
import os
import select
import struct
import time

from .ids import become_root, map_ids, own_id
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    answer,
    close_all_but,
    fork_into,
    ignore_children,
    join_descriptor,
    keep_capabilities,
    restore_signals,
    set_dumpable,
    set_title,
)
from .namespaces import CAPABILITIES, JobInit, enter_users, forbid_nested
from .network import set_rules
from .programs import Programs, spawn
from .roots import SEND_BYTES, SSHD, SSHD_CONFIG, enter_outer_root
from .shares import INNER_MAP
from .supervisor import run
from .syscall_filter import install

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn


_MESSAGE_BYTES = 256
_KINDS = ("cgroup", "ipc", "uts", "net", "pid_for_children", "mnt")


def limit(*, user_namespaces: bool) -> None:
    """Drop what no process of the VM may do."""
    if not user_namespaces:
        forbid_nested()
    install(user_namespaces=user_namespaces)
    keep_capabilities(CAPABILITIES)


def serve(arrivals: int, control: int, job: JobInit, programs: int | None = None) -> NoReturn:
    """Start an sshd for each that comes at a socket, see `Sshds`; end when the job's supervisor ends.

    The job's disk comes on ``control``, and the service's programs on ``programs`` if it is on this host. Before the
    first connection, and so before any process could look, it closes and hides all that is the host's.
    """
    at_doors = (arrivals, control) if programs is None else (arrivals, control, programs)
    close_all_but(*at_doors, *job.descriptors)
    restore_signals()
    ignore_children()
    set_title(b"init")
    set_dumpable(dumpable=False)
    poll = select.poll()
    sshds = Sshds(arrivals, poll)
    door, supervisors_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    supervisor_end = _start_supervisor(control, job, door, supervisors_end)
    started = None if programs is None else Programs(programs)
    if programs is not None:
        poll.register(programs, select.POLLIN)
    for each in (door.fileno(), supervisor_end):
        poll.register(each, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == door.fileno():
                _open_entrance(door, job.users)
            elif ready == supervisor_end:
                os._exit(0)
            elif started is not None and ready == programs:
                started.attend()
            else:
                sshds.attend(ready)


def _start_supervisor(control: int, job: JobInit, door: _socket.socket, supervisors_end: _socket.socket) -> int:
    """Start the supervisor of the job, whose disk comes on ``control``; return a pidfd of it.

    Only the supervisor keeps those of the disk and of the job's init, but for the job's users.
    """
    pid = os.fork()
    if pid == 0:
        door.close()
        run(control, job, supervisors_end)
    os.close(control)
    job.leave_to_supervisor()
    return os.pidfd_open(pid)


def _open_entrance(door: _socket.socket, job_users: int | None) -> None:
    """Start a process in the job's namespaces, for shells to find; it sends its id, or 0.

    It has the capabilities of the job, and is in no PID namespace of the job. Of the outer layer it holds only the
    supervisor's descriptors, which the message names after the supervisor's id.
    """
    supervisor_id, *groups = map(int, door.recv(_MESSAGE_BYTES).split())
    try:
        if os.fork() == 0:
            _be_entrance(door, job_users, supervisor_id, groups)
    except (OSError, MemoryError):
        door.send(b"0")


def _be_entrance(door: _socket.socket, job_users: int | None, supervisor_id: int, groups: list[int]) -> NoReturn:
    try:
        set_title(b"entrance")
        folder = f"/proc/{supervisor_id}"
        opened = [os.open(f"{folder}/fd/{group}", os.O_WRONLY) for group in groups]
        for namespace in [os.open(f"{folder}/ns/{kind}", os.O_RDONLY) for kind in _KINDS]:
            join_descriptor(namespace, 0)
        enter_users(job_users)
        close_all_but(door.fileno(), *opened)
        set_dumpable(dumpable=True)
        door.send(b"%d" % os.getpid())
        door.close()
        while True:
            time.sleep(1 << 20)
    except OSError:
        door.send(b"0")
    finally:
        os._exit(1)


_NAMESPACES = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_ID_BYTES = 16


class GuestProcess:
    """The VM's PID 1, which takes a step when it is told to: its networks, then all else."""

    def __init__(self, spec: dict[str, Any], root: str, report: int) -> None:
        """Fork it into the VM's namespaces, and let it make its networks. Raises OSError.

        ``root`` is a mount of the base tree.
        """
        wait, self._go = os.pipe()
        self._progress, progress = os.pipe()
        os.chdir(root)  # before the fork, so that it is of the child's own mounts there
        if fork_into(CLONE_NEWUSER | _NAMESPACES) == 0:
            os.close(self._go)
            _run_guest(spec, wait, progress, report)
        os.chdir("/")
        os.close(wait)
        os.close(progress)
        self.pid = int(os.read(self._progress, _ID_BYTES) or b"0")
        if self.pid:
            map_ids(self.pid, INNER_MAP, INNER_MAP)
        self._let_go_on()

    def go(self) -> None:
        """Let the process set up the VM; return when it can no longer fail. Raises OSError."""
        self._let_go_on()
        os.close(self._go)
        os.close(self._progress)

    def _let_go_on(self) -> None:
        """Let the process take its next step, and wait for its end. Raises OSError if it could not.

        Its own report has come before, and says more.
        """
        answer(self._go, b"1")
        if os.read(self._progress, 1) != b"1":
            message = "the first process of the VM has ended"
            raise OSError(message)


def _run_guest(spec: dict[str, Any], wait: int, progress: int, report: int) -> NoReturn:
    try:
        os.write(progress, own_id().ljust(_ID_BYTES))
        _await(wait)
        become_root()
        job = _start_job(spec)
        os.write(progress, b"1")
        _await(wait)
        enter_outer_root(spec)
        limit(user_namespaces=spec["user_namespaces"])
        os.write(progress, b"1")
        serve(spec["arrivals"], spec["control"], job, spec.get("programs"))
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(report, f"failed {error}\n".encode())
    finally:
        os._exit(1)


def _await(wait: int) -> None:
    """Wait until the monitor lets this process take its next step. Ends it if the monitor has ended."""
    if os.read(wait, 1) != b"1":
        os._exit(1)


def _start_job(spec: dict[str, Any]) -> JobInit:
    """Start the job's init, which makes the networks, and join that of the VM, whose rules are set."""
    job = JobInit(nested=spec["user_namespaces"])
    join_descriptor(job.network, CLONE_NEWNET)
    if spec["network"]:
        set_rules(spec["network"]["rules"])
    return job


_COMMAND = (SSHD, "-i", "-f", SSHD_CONFIG)
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_BACK_OFF_SECONDS = 0.05
_HANDED = 3
"""Descriptors of a message: standard input, standard output, and the program's socket."""


class Sshds:
    """The sshds of what comes at a socket: connections, or messages with the streams of one.

    In an engine's instance, a program has the service on its standard input and output. It hands over both, and a
    socket, which hangs up when their sshd has ended.
    """

    def __init__(self, arrivals: int, poll: select.poll) -> None:
        """Let ``poll`` wait for all that `attend` is to know."""
        self._arrivals = _socket.socket(fileno=arrivals)
        self._programs: dict[int, int] = {}
        """The sockets of programs that wait, by pidfds of their sshds."""

        self._poll = poll
        poll.register(arrivals, select.POLLIN)

    def attend(self, ready: int) -> None:
        """Note the end of an sshd, or start the next one.

        If there is no room for its process, refuse its streams.
        """
        if ready in self._programs:
            self._poll.unregister(ready)
            os.close(ready)
            os.close(self._programs.pop(ready))
            return
        try:
            if self._arrivals.type == _socket.SOCK_STREAM:
                self._accept()
            else:
                self._receive()
        except OSError:
            time.sleep(_BACK_OFF_SECONDS)

    def _accept(self) -> None:
        connection = _socket.socket(fileno=self._arrivals._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - socket.py would cost 4 ms
        try:
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SEND_BYTES)
            spawn(_COMMAND, _ENVIRONMENT, [connection.fileno()] * 2)
        finally:
            connection.close()

    def _receive(self) -> None:
        space = _socket.CMSG_SPACE(_HANDED * 4)
        _, rights, _, _ = self._arrivals.recvmsg(1, space, _socket.MSG_CMSG_CLOEXEC)
        handed = [number for _, _, sent in rights for (number,) in struct.iter_unpack("i", sent)]
        try:
            if len(handed) == _HANDED:  # without room for all, fewer come
                sshd = os.pidfd_open(spawn(_COMMAND, _ENVIRONMENT, handed[:2]))
                self._poll.register(sshd, select.POLLIN)
                self._programs[sshd] = handed.pop()
        finally:
            for each in handed:
                os.close(each)
