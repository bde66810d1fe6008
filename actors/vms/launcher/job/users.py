"""The user namespace of a job, below that of the VM's outer layer, with the same ids.

It owns all other namespaces of the job, the network's too. The kernel looks for the interpreters of a program
(``binfmt_misc``) in the user namespace of the process that executes it, and in those above: what a job registers is
executed by the job alone, and by nothing of the outer layer, whose namespace no process of the job is in.
"""

from __future__ import annotations

import os
import resource

from .. import network, shares
from ..ids import as_root
from ..kernel import CLONE_NEWNET, descriptor_of, join_descriptor, keep_capabilities, unshare

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


def make(*, nested: bool) -> tuple[int, int, int]:
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
            network.raise_loopback()
            made.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        os.write(tell, " ".join(map(str, made)).encode())

    def take(child: int) -> None:  # the kernel counts descriptors that are sent by the user id that all VMs share
        process = os.pidfd_open(child)
        found.extend(descriptor_of(process, int(number)) for number in os.read(told, _NUMBERS_BYTES).split())
        os.close(process)

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (shares.limit_of_job(), hard))  # the new namespace keeps it as its bound
    status = as_root(shares.INNER_MAP, shares.INNER_MAP, make_all, take)
    resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    os.close(told)
    os.close(tell)
    if status != 0 or not found:
        message = "the user namespace of the job cannot be made"
        raise OSError(message)
    users, network_of_vm, offline = found
    return users, network_of_vm, offline


def enter(users: int | None) -> None:
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
