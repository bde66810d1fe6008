"""PID 1 of a VM: it serves every connection with an sshd and outlives all of them.

The kernel reaps its children (SIGCHLD is ignored) and protects it from every signal from inside the VM (each has its
default action, to which PID 1 is immune). It is not dumpable, and its memory belongs to the host's user namespace, so
that root of the VM can neither trace it nor read its ``/proc`` entry.
"""

from __future__ import annotations

import _socket
import os
import resource
import time

from . import syscall_filter
from .guest import SSHD, SSHD_CONFIG
from .kernel import (
    close_all_but,
    ignore_children,
    keep_capabilities,
    raise_oom_score,
    restore_signals,
    set_dumpable,
    set_title,
)

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

_SSHD = (SSHD, "-i", "-f", SSHD_CONFIG)
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_CAPABILITIES = (
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

_OOM_SCORE = 995
_BACK_OFF_SECONDS = 0.05


def limit(limits: list[tuple[int, int, int]], *, user_namespaces: bool) -> None:
    """Set resource limits (kind, soft, hard; -1 is none) and drop what no process of the VM may do."""
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))
    if not user_namespaces:
        with open("/proc/sys/user/max_user_namespaces", "wb", buffering=0) as file:
            file.write(b"0")
    syscall_filter.install(user_namespaces=user_namespaces)
    keep_capabilities(_CAPABILITIES)


def serve(listener: int) -> NoReturn:
    """Accept connections for ever. If the VM has no room for another process, it refuses this connection.

    Before the first connection, and so before any process could look, it closes and hides all that is the host's.
    """
    close_all_but(listener)
    restore_signals()
    ignore_children()
    set_title(b"init")
    set_dumpable(dumpable=False)
    socket = _socket.socket(fileno=listener)
    while True:
        try:
            connection, _ = socket._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - socket.py would cost 4 ms
        except OSError:
            time.sleep(_BACK_OFF_SECONDS)
            continue
        try:
            if os.fork() == 0:
                _answer(connection)
        except (OSError, MemoryError):
            time.sleep(_BACK_OFF_SECONDS)
        os.close(connection)


def _answer(connection: int) -> NoReturn:
    try:
        os.setsid()
        restore_signals()
        os.dup2(connection, 0)
        os.dup2(connection, 1)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        set_dumpable(dumpable=True)
        raise_oom_score(_OOM_SCORE)  # above PID 1, whose end is that of the VM
        os.execve(SSHD, _SSHD, _ENVIRONMENT)  # noqa: S606 - the very point
    finally:
        os._exit(127)
