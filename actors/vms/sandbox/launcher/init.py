"""PID 1 of a VM: it answers every connection with an sshd and outlives all of them.

The kernel reaps for it (SIGCHLD is ignored) and keeps every signal from inside the VM away from it (each has its
default, which PID 1 is immune to). It is not dumpable, and its memory belongs to the host's user namespace, so that
root of the VM can neither trace it nor look through its ``/proc`` entry.
"""

from __future__ import annotations

import _socket
import os
import resource
import time

from .filter import refuse_other_sockets
from .guest import SSHD, SSHD_CONFIG
from .kernel import (
    drop_capabilities,
    forget_children,
    hold_only,
    leave_keyring,
    restore_signals,
    set_dumpable,
    set_title,
)

TYPE_CHECKING = False  # the module of this name takes longer to import than all the others together
if TYPE_CHECKING:
    from typing import NoReturn

_SSHD = (SSHD, "-i", "-f", SSHD_CONFIG)
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_FORBIDDEN = (
    12,  # net_admin: would open the network again
    13,  # net_raw: packets past the rules
    16,  # sys_module
    17,  # sys_rawio
    20,  # sys_pacct
    22,  # sys_boot: reboot(2) would end PID 1
    24,  # sys_resource: would raise what it may have of the kernel's own objects
    25,  # sys_time
    30,  # audit_control
    32,  # mac_override
    33,  # mac_admin
    34,  # syslog
    35,  # wake_alarm
    36,  # block_suspend
    37,  # audit_read
    38,  # perfmon
    39,  # bpf
    40,  # checkpoint_restore
)
_BACK_OFF_SECONDS = 0.05


def limit(limits: list[tuple[int, int, int]], objects: dict[str, int]) -> None:
    """Set resource limits (which, soft, hard; -1 is none) and give up what no process of the VM may do.

    ``objects`` is the most of each kind that ``/proc/sys/user`` knows.
    """
    for which, soft, hard in limits:
        resource.setrlimit(which, (soft, hard))
    for name, most in objects.items():
        with open(f"/proc/sys/user/{name}", "wb", buffering=0) as file:
            file.write(b"%d" % most)
    refuse_other_sockets()
    drop_capabilities(_FORBIDDEN)
    leave_keyring()


def serve(listener: int) -> NoReturn:
    """Accept for ever. A VM too full for one more process refuses this connection and goes on.

    By the first connection, and so by the first process that could look, nothing of the host is held or shown.
    """
    hold_only(listener)
    restore_signals()
    forget_children()
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
        _be_the_first_victim()
        os.execve(SSHD, _SSHD, _ENVIRONMENT)  # noqa: S606 - the very point
    finally:
        os._exit(127)


def _be_the_first_victim() -> None:
    """Where memory runs out, let it hit what runs in a VM before PID 1 and before the host's own."""
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"500")
