"""The namespaces of a job: its users, what is made while its disk is mounted, and its command's init.

The user namespace is below that of the VM's outer layer, with the same ids. It owns all other namespaces of the job,
the network's too. The kernel looks for the interpreters of a program (``binfmt_misc``) in the user namespace of the
process that executes it, and in those above: what a job registers is executed by the job alone, and by nothing of the
outer layer, whose namespace no process of the job is in.

The command's init is PID 1 of a PID namespace of the command's own, below the job's. It signals the command's processes
on request, and they end with it. No descriptor is sent to it: the kernel counts those on their way by the user id that
all VMs share.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import marshal
import os
import resource
import struct
import time

from .ids import as_root
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_PRIVATE,
    MS_REC,
    attach_mount,
    close_all_but,
    copy_of_mount,
    descriptor_of,
    ignore_children,
    join_descriptor,
    keep_capabilities,
    make_read_only,
    mount,
    set_dumpable,
    set_title,
    unshare,
)
from .network import raise_loopback
from .roots import JOB_ROOT, STAGE, WORKSPACE, enter_job_root, stage
from .shares import INNER_MAP, limit_of_job
from .trees import make_directory

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


CAPABILITIES = (
    0,  # chown
    1,  # dac_override
    3,  # fowner
    4,  # fsetid
    5,  # kill
    6,  # setgid
    7,  # setuid
    8,  # setpcap
    10,  # net_bind_service
    18,  # sys_chroot
    19,  # sys_ptrace: gdb and strace of another user's program
    21,  # sys_admin: mounts and namespaces
    27,  # mknod
    29,  # audit_write
    31,  # setfcap
)
"""Those of a container with sys_ptrace and sys_admin, except net_raw.

net_raw would send packets past the firewall's rules, and net_admin could remove the rules.
"""

_NUMBERS_BYTES = 64
_MOST_NESTED = "/proc/sys/user/max_user_namespaces"


def make_users(*, nested: bool) -> tuple[int, int, int]:
    """Make the namespace, and two of the network that it owns; return descriptors of the three.

    The first network is the VM's, the other one has nothing but a loopback. The job can make user namespaces only if
    they may be ``nested``. The bound of its processes leaves the service's own part of the VM its share, whatever ids
    they have. Raises OSError.
    """
    told, tell = os.pipe()
    found: list[int] = []

    def make_all() -> None:
        if not nested:
            forbid_nested()
        made = [os.open("/proc/self/ns/user", os.O_RDONLY)]
        for _ in range(2):
            unshare(CLONE_NEWNET)
            raise_loopback()
            made.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        os.write(tell, " ".join(map(str, made)).encode())

    def take(child: int) -> None:  # the kernel counts descriptors that are sent by the user id that all VMs share
        process = os.pidfd_open(child)
        found.extend(descriptor_of(process, int(number)) for number in os.read(told, _NUMBERS_BYTES).split())
        os.close(process)

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit_of_job(), hard))  # the new namespace keeps it as its bound
    status = as_root(INNER_MAP, INNER_MAP, make_all, take)
    resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    os.close(told)
    os.close(tell)
    if status != 0 or not found:
        message = "the user namespace of the job cannot be made"
        raise OSError(message)
    users, network_of_vm, offline = found
    return users, network_of_vm, offline


def enter_users(users: int | None) -> None:
    """Become root of the job's user namespace, with its capabilities alone. Raises OSError.

    Without one, as in a machine, nothing changes.
    """
    if users is not None:
        join_descriptor(users, 0)
        keep_capabilities(CAPABILITIES)


def forbid_nested() -> None:
    """Let nobody make user namespaces below the one that this process is in."""
    with open(_MOST_NESTED, "wb", buffering=0) as file:
        file.write(b"0")


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
        enter_users(self._users)

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
        enter_users(job_users)
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
        stage(STAGE)
        set_title(b"init")
        if not (received := os.read(order, _ORDER_BYTES)):
            os._exit(1)
        set_dumpable(dumpable=False)
        spec = marshal.loads(received)  # noqa: S302 - from the service itself
        if not spec["network"]:
            join_descriptor(offline, 0)
        enter_job_root(JOB_ROOT, STAGE, spec["memory_bytes"], spec["resolver"])
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


_READY, _JOINED, _ALL_DEAD = b"ready", b"joined", b"dead"
_MESSAGE_BYTES = 1024
_CREDENTIALS = struct.Struct("3i")


class CommandInit:
    """The init of a command, as the supervisor has it.

    ``word`` is a descriptor on which its word comes that all are dead; ``pidfd`` is that of its process.
    """

    def __init__(self) -> None:
        """Make the socket to it, for the process that will fork it."""
        self._socket, self._theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)  # tells the sender's id as it is here
        self.word, self.pidfd = self._socket.fileno(), -1

    def fork(self) -> None:
        """Start it, in the job's PID 1. An error goes to `join`."""
        try:
            unshare(CLONE_NEWPID)
            if os.fork() == 0:
                _run_command_init(self._theirs)
        except OSError as error:
            self._theirs.send(str(error).encode())

    def close_theirs(self) -> None:
        """Leave its end of the socket to the process that will fork it."""
        self._theirs.close()

    def join(self) -> None:
        """Let the next child of this process be in its PID namespace. Raises OSError."""
        message, credentials, _, _ = self._socket.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(_CREDENTIALS.size))
        if message != _READY:
            raise OSError(message.decode() or "the command's init was killed")
        self.pidfd = os.pidfd_open(_CREDENTIALS.unpack(credentials[0][2])[0])
        join_descriptor(self.pidfd, CLONE_NEWPID)
        self._socket.send(_JOINED)

    def terminate_all(self) -> None:
        """Let it send TERM to all processes of its namespace."""
        self._order(_signal.SIGTERM)

    def kill_all(self) -> None:
        """Let it kill all processes of its namespace, and end."""
        self._order(_signal.SIGKILL)

    def all_dead(self) -> bool:
        """Take its word that all are dead; False if it was killed before it gave it."""
        try:
            return self._socket.recv(_MESSAGE_BYTES) == _ALL_DEAD
        except ConnectionResetError:
            return False

    def kill(self) -> None:
        """Kill it, so that the kernel kills all processes of its namespace, whatever they do."""
        try:
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGKILL)
        except ProcessLookupError:  # it has just ended
            return

    def close(self) -> None:
        """Close the descriptors."""
        self._socket.close()
        os.close(self.pidfd)

    def _order(self, number: int) -> None:
        try:
            self._socket.send(bytes([number]))
        except ConnectionError:  # it was killed
            return


def _run_command_init(service: _socket.socket) -> NoReturn:
    try:
        ignore_children()
        close_all_but(service.fileno())
        set_dumpable(dumpable=True)  # so that the supervisor may join its namespace; no process of the job runs yet
        service.send(_READY)
        service.recv(_MESSAGE_BYTES)
        set_dumpable(dumpable=False)
        while order := service.recv(_MESSAGE_BYTES):
            _signal_all(order[0])
            if order[0] == _signal.SIGKILL:
                _await_all()
                service.send(_ALL_DEAD)
                break
    finally:
        os._exit(0)


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:  # nothing runs
        return


def _await_all() -> None:
    try:
        os.waitpid(-1, 0)  # the kernel reaps them, so this waits for the last
    except ChildProcessError:
        return
