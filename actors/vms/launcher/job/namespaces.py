"""The namespaces of a job: made while its disk is mounted, and shown to sessions of the outer layer."""

from __future__ import annotations

import marshal
import os
import time

from ..kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_PRIVATE,
    MS_REC,
    attach_mount,
    close_all_but,
    copy_of_mount,
    ignore_children,
    join_descriptor,
    make_read_only,
    mount,
    set_dumpable,
    set_title,
    unshare,
)
from ..outer import JOB_ROOT, STAGE, WORKSPACE
from ..trees import make_directory
from . import root, users
from .command_init import CommandInit

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any, NoReturn

_ERROR_BYTES = 4096
_ORDER_BYTES = 4096
_ID_BYTES = 16
_KINDS = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP


class Namespaces:
    """The namespaces of a job, and their PID 1, which waits for the disk.

    This process joins them, but keeps its own PID namespace, in which only its children are the job's or the command's,
    and its user namespace: a child has to become root of the job's before it executes anything.
    """

    def __init__(self, offline: int, job_users: int | None) -> None:
        """Make them. ``offline`` is a network namespace without a network. Raises OSError.

        ``job_users`` is the user namespace that owns them, None if it is that of this process.
        """
        self._offline = offline
        self._users = job_users
        self.command_init = CommandInit()
        order, self._order = os.pipe()
        self._done, report = os.pipe()
        starter = os.fork()
        if starter == 0:
            os.close(self._order)
            _start_init(order, report, offline, job_users, self.command_init)
        os.close(order)
        os.close(report)
        self.command_init.close_theirs()
        self._join(os.read(self._done, _ERROR_BYTES))
        os.waitpid(starter, 0)
        self._of_children = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
        self.all_processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        """The outer layer's ``/proc``, on which the job can mount nothing."""

    def enter(self, spec: dict[str, Any], disk: int) -> None:
        """Make the mount of the job's disk the root, also of this process. Raises OSError."""
        attach_mount(disk, JOB_ROOT)
        os.close(disk)
        os.write(self._order, marshal.dumps(spec))
        if not spec["network"]:
            join_descriptor(self._offline, 0)
        answer = os.read(self._done, _ERROR_BYTES)
        for descriptor in (self._offline, self._order, self._done):
            os.close(descriptor)
        if answer != b"1":
            raise OSError(answer.decode() or "the job's namespaces cannot be made")
        os.chdir("/")

    def become_root(self) -> None:
        """Become root of the job's user namespace, with its capabilities. Raises OSError."""
        users.enter(self._users)

    def next_child_joins_command(self) -> None:
        """Let the next child be in the PID namespace of the job's command. Raises OSError."""
        self.command_init.join()

    def next_child_joins_job(self) -> None:
        """Let all children be in the job's PID namespace again."""
        join_descriptor(self._of_children, CLONE_NEWPID)

    def _join(self, init: bytes) -> None:
        """Join the namespaces of the job's init; this is its id, or why there is none. Raises OSError."""
        if not init.isdigit():
            raise OSError(init.decode() or "the job's namespaces cannot be made")
        process = os.pidfd_open(int(init))
        join_descriptor(process, _KINDS)
        os.close(process)


def mount_workspace(session: int) -> bool:
    """Mount the job's workspace for the session of a pidfd, with all else read-only; tell if it worked.

    The session has a mount namespace of its own. Links in the workspace's path are those of the job's disk.
    """

    def in_child() -> None:
        make_directory("/workspace", 0o755)
        workspace = copy_of_mount("/workspace")
        join_descriptor(session, CLONE_NEWNS)
        make_read_only("/")
        attach_mount(workspace, WORKSPACE)

    return _run_in_child(in_child)


def open_entrance(door: _socket.socket, descriptors: list[int]) -> int:
    """Let init start a process in the namespaces of this one, for shells to find; return its id.

    The process opens the files of these descriptors, too. Raises OSError.
    """
    set_dumpable(dumpable=True)  # so that it may look at the namespaces and descriptors
    door.send(" ".join(map(str, (os.getpid(), *descriptors))).encode())
    entrance = int(door.recv(_ID_BYTES))
    set_dumpable(dumpable=False)
    if not entrance:
        message = "there is no room for a process"
        raise OSError(message)
    return entrance


def _start_init(order: int, report: int, offline: int, job_users: int | None, command_init: CommandInit) -> NoReturn:
    """Make the job's namespaces and start its init there; report its id, or what went wrong."""
    try:
        users.enter(job_users)
        unshare(_KINDS)
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        set_dumpable(dumpable=True)  # so that the supervisor may join them; no process of the job runs yet
        if (init := os.fork()) == 0:
            _run_init(order, report, offline, command_init)
        os.write(report, b"%d" % init)
    except OSError as error:
        os.write(report, str(error).encode())
    finally:
        os._exit(0)


def _run_init(order: int, report: int, offline: int, command_init: CommandInit) -> NoReturn:
    """Be PID 1 of the job's PID namespace, whose orphans the kernel reaps, and start the command's init."""
    try:
        root.stage(STAGE)
        set_title(b"init")
        if not (received := os.read(order, _ORDER_BYTES)):
            os._exit(1)
        set_dumpable(dumpable=False)
        spec = marshal.loads(received)  # noqa: S302 - from the service itself
        if not spec["network"]:
            join_descriptor(offline, 0)
        root.enter_root(JOB_ROOT, STAGE, spec["memory_bytes"], spec["resolver"])
        os.write(report, b"1")
        command_init.fork()
        close_all_but()
        ignore_children()
        while True:
            time.sleep(1 << 20)
    except OSError as error:
        os.write(report, str(error).encode())
    finally:
        os._exit(1)


def _run_in_child(function: Callable[[], None]) -> bool:
    """Call a function in a child, whose namespaces it may change; tell if it raised no OSError."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()
            status = 0
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
