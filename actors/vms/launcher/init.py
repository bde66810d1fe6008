"""PID 1 of a VM: it serves every connection with an sshd, and starts the job's supervisor.

The kernel reaps its children (SIGCHLD is ignored) and protects it from every signal from inside the VM (each has its
default action, to which PID 1 is immune). It is not dumpable, and its memory belongs to the host's user namespace, so
that root of the VM can neither trace it nor read its ``/proc`` entry.
"""

from __future__ import annotations

import _socket
import os
import select
import time

from . import syscall_filter
from .job import supervisor, users
from .kernel import (
    close_all_but,
    ignore_children,
    join_descriptor,
    keep_capabilities,
    restore_signals,
    set_dumpable,
    set_title,
)
from .sshd import Sshds

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

_MESSAGE_BYTES = 256
_KINDS = ("cgroup", "ipc", "uts", "net", "pid_for_children", "mnt")


def limit(*, user_namespaces: bool) -> None:
    """Drop what no process of the VM may do."""
    if not user_namespaces:
        users.forbid_nested()
    syscall_filter.install(user_namespaces=user_namespaces)
    keep_capabilities(users.CAPABILITIES)


def serve(arrivals: int, control: int, offline: int, job_users: int | None = None) -> NoReturn:
    """Start an sshd for each that comes at a socket, see `Sshds`; end when the job's supervisor ends.

    The job's disk comes on ``control``. ``offline`` is a network namespace without a network, for a job that is to have
    none, and ``job_users`` the job's user namespace, None if it has that of this process. Before the first connection,
    and so before any process could look, it closes and hides all that is the host's.
    """
    close_all_but(arrivals, control, offline, *(() if job_users is None else (job_users,)))
    restore_signals()
    ignore_children()
    set_title(b"init")
    set_dumpable(dumpable=False)
    poll = select.poll()
    sshds = Sshds(arrivals, poll)
    door, supervisors_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    supervisor_end = _start_supervisor(control, offline, job_users, door, supervisors_end)
    for each in (door.fileno(), supervisor_end):
        poll.register(each, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == door.fileno():
                _open_entrance(door, job_users)
            elif ready == supervisor_end:
                os._exit(0)
            else:
                sshds.attend(ready)


def _start_supervisor(
    control: int, offline: int, job_users: int | None, door: _socket.socket, supervisors_end: _socket.socket
) -> int:
    """Start the supervisor of the job, whose disk comes on ``control``; return a pidfd of it.

    Only the supervisor keeps those of the disk and of the network.
    """
    pid = os.fork()
    if pid == 0:
        door.close()
        supervisor.run(control, offline, job_users, supervisors_end)
    os.close(control)
    os.close(offline)
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
        users.enter(job_users)
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
