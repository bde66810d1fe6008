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

from .containers import prepare_containers
from .ids import become_root, map_ids, own_id
from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_PRIVATE,
    MS_REC,
    answer,
    attach_mount,
    close_all_but,
    copy_of_mount,
    descriptor_of,
    fork_into,
    ignore_children,
    join_descriptor,
    keep_capabilities,
    make_read_only,
    mount,
    restore_signals,
    set_dumpable,
    set_title,
    survive_failed_writes,
    unshare,
)
from .network import raise_loopback
from .roots import JOB_ROOT, STAGE, WORKSPACE, enter_job_root, stage
from .shares import INNER_MAP, limit_of_job
from .syscall_filter import install
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

_MOST_NESTED = "/proc/sys/user/max_user_namespaces"


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


_ANSWER_BYTES = 4096
_ID_BYTES = 16
_ORDER_BYTES = 4096
_GO = b"1"
_OF_DISK = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP
_KINDS = _OF_DISK | CLONE_NEWPID


class JobInit:
    """PID 1 of a job, which makes the job's namespaces in three steps.

    The VM's init forks it: into the job's users, where it makes their networks, before anything else of the VM is
    there. The supervisor lets it go on when the outer layer has its root, and then gives it the job's disk. One process
    does all of it, since each fork costs more than the rest of its step.
    """

    def __init__(self, offline: int | None = None, *, nested: bool = False) -> None:
        """Fork it, and return when it has made the job's users and networks. Raises OSError.

        Given ``offline``, a network namespace with nothing but a loopback, it makes neither, as in a machine. The job
        can make user namespaces only if they may be ``nested``.
        """
        self.command_init = CommandInit()
        order, self.order = os.pipe()
        self.answer, report = os.pipe()
        self.users: int | None = None
        limit = resource.getrlimit(resource.RLIMIT_NPROC)
        self.pid = _fork_into_users(limit) if offline is None else fork_into(CLONE_NEWPID)
        if self.pid == 0:
            _run_init(_Orders(order, report, self.command_init), offline, nested=nested)
        os.close(order)
        os.close(report)
        self.command_init.close_theirs()
        if offline is None:
            self._take_users()
        else:
            self.offline = offline

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the supervisor needs of it."""
        users = () if self.users is None else (self.users,)
        return self.order, self.answer, self.offline, self.command_init.word, *users

    def leave_to_supervisor(self) -> None:
        """Keep nothing of it in this process but the job's users."""
        self.command_init.close_ours()
        self.close()

    def close(self) -> None:
        """Close what is of no use once the job has its disk."""
        for each in (self.offline, self.order, self.answer):
            os.close(each)

    def next_answer(self) -> bytes:
        """Wait for its next answer; empty if it has ended."""
        return os.read(self.answer, _ANSWER_BYTES)

    def _take_users(self) -> None:
        """Map its ids, and take descriptors of its users and networks.

        They are not sent: the kernel counts those on their way by the user id that all VMs share.
        """
        (seen_outside,) = self._next_numbers()
        map_ids(int(seen_outside), INNER_MAP, INNER_MAP)
        os.write(self.order, _GO)
        numbers = self._next_numbers()
        process = os.pidfd_open(self.pid)
        self.users, self.offline, self.network = (descriptor_of(process, int(each)) for each in numbers)
        os.close(process)

    def _next_numbers(self) -> list[bytes]:
        numbers = self.next_answer()
        if not numbers[:1].isdigit():
            raise OSError(numbers.decode() or "the user namespace of the job cannot be made")
        return numbers.split()


def _fork_into_users(limit: tuple[int, int]) -> int:
    """Fork into a user and a PID namespace; return the child's id, in the child 0.

    The bound of its processes leaves the service's own part of the VM its share, whatever ids they have. ``limit`` is
    this process's own.
    """
    resource.setrlimit(resource.RLIMIT_NPROC, (limit_of_job(), limit[1]))  # the new namespace keeps it as its bound
    try:
        return fork_into(CLONE_NEWUSER | CLONE_NEWPID)
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, limit)


class Namespaces:
    """The namespaces of a job, as its supervisor has them.

    The supervisor joins them, but keeps its own PID namespace, in which only its children are the job's or the
    command's, and its user namespace: a child has to become root of the job's before it executes anything.
    """

    def __init__(self, init: JobInit) -> None:
        """Let the job's init make them, and join them. Raises OSError."""
        self._init = init
        self.command_init = init.command_init
        answer(init.order, _GO)
        _check(init.next_answer())
        process = os.pidfd_open(init.pid)
        join_descriptor(process, _KINDS)
        os.close(process)
        self._of_children = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
        self.all_processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        """The outer layer's ``/proc``, on which the job can mount nothing."""

    def enter(self, spec: dict[str, Any], disk: int) -> None:
        """Make the mount of the job's disk the root, also of this process. Raises OSError."""
        attach_mount(disk, JOB_ROOT)
        os.close(disk)
        os.write(self._init.order, marshal.dumps(spec))
        if not spec["network"]:
            join_descriptor(self._init.offline, 0)
        made = self._init.next_answer()
        self._init.close()
        _check(made)
        os.chdir("/")

    def become_root(self) -> None:
        """Become root of the job's user namespace, with its capabilities. Raises OSError."""
        enter_users(self._init.users)

    def next_child_joins_command(self) -> None:
        """Let the next child be in the PID namespace of the job's command. Raises OSError."""
        self.command_init.join()

    def next_child_joins_job(self) -> None:
        """Let all children be in the job's PID namespace again."""
        join_descriptor(self._of_children, CLONE_NEWPID)


def _check(made: bytes) -> None:
    """Raise OSError if this is no answer of the job's init that all is well."""
    if made != _MADE:
        raise OSError(made.decode() or "the job's namespaces cannot be made")


def mount_folder(session: int, folder: str) -> bool:
    """Mount a folder of the job for the session of a pidfd, with all else read-only; tell if it worked.

    The session has a mount namespace of its own. Links in the folder's path are those of the job's disk.
    """

    def in_child() -> None:
        make_directory(folder, 0o755)
        mount = copy_of_mount(folder)
        join_descriptor(session, CLONE_NEWNS)
        make_read_only("/")
        attach_mount(mount, WORKSPACE)

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


class _Orders:
    """The pipes between the job's init and the others: orders, its answers; and the command's init."""

    def __init__(self, order: int, report: int, command_init: CommandInit) -> None:
        self.order = order
        self.report = report
        self.command_init = command_init

    def next(self) -> bytes:
        """Wait for the next order. Ends this process if nobody is left to give one."""
        if not (order := os.read(self.order, _ORDER_BYTES)):
            os._exit(1)
        return order


def _run_init(orders: _Orders, offline: int | None, *, nested: bool) -> NoReturn:
    """Be PID 1 of the job's PID namespace, whose orphans the kernel reaps, and start the command's init."""
    try:
        in_users = offline is None
        if offline is None:
            offline = _make_users(orders, nested=nested)
        orders.next()
        _enter_outer_layer(orders, offline)
        if in_users:
            install(user_namespaces=nested)
            keep_capabilities(CAPABILITIES)
        unshare(_OF_DISK)
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        set_dumpable(dumpable=True)  # so that the supervisor may join them; no process of the job runs yet
        os.write(orders.report, _MADE)
        stage(STAGE)
        set_title(b"init")
        received = orders.next()
        set_dumpable(dumpable=False)
        spec = marshal.loads(received)  # noqa: S302 - from the service itself
        if not spec["network"]:
            join_descriptor(offline, 0)
        enter_job_root(JOB_ROOT, STAGE, spec["memory_bytes"], spec["resolver"], spec.get("services", []))
        if spec["containers"]:
            prepare_containers()
        os.write(orders.report, _MADE)
        orders.command_init.fork()
        close_all_but()
        ignore_children()
        while True:
            time.sleep(1 << 20)
    except OSError as error:
        os.write(orders.report, str(error).encode())
    finally:
        os._exit(1)


def _make_users(orders: _Orders, *, nested: bool) -> int:
    """Become root of this process's user namespace, make its networks, and tell their descriptors.

    Returns that of the network that has nothing but a loopback; this process is in the other one, the VM's.
    """
    os.write(orders.report, own_id())
    orders.next()
    become_root()
    if not nested:
        forbid_nested()
    made = [os.open("/proc/self/ns/user", os.O_RDONLY)]
    for _ in range(2):
        unshare(CLONE_NEWNET)
        raise_loopback()
        made.append(os.open("/proc/self/ns/net", os.O_RDONLY))
    os.write(orders.report, " ".join(map(str, made)).encode())
    return made[1]


def _enter_outer_layer(orders: _Orders, offline: int) -> None:
    """Keep nothing of the VM's init, but the root that it has made meanwhile."""
    close_all_but(orders.order, orders.report, offline, orders.command_init.theirs)
    restore_signals()
    survive_failed_writes()
    os.chdir("/")


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


_MADE = b"made"
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
        self.theirs = self._theirs.fileno()

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

    def close_ours(self) -> None:
        """Leave this end of the socket to the supervisor."""
        self._socket.close()

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
