"""A VM's network from the host's side: closed first, then connected (engine.md, "Leases").

The service makes the rules, see ``actors/vms/host/network.py``. They are set here while the namespace has neither
an interface nor a process of the VM in it.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import resource
import select
import struct

from .kernel import MS_BIND, mount, restore_signals
from .shares import NETWORK_PROGRAM_ID

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn


NETNS = "netns"

_NETLINK_NETFILTER = 12
_NLMSG_ERROR = 2
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_LOG_BYTES = 1 << 20


def raise_loopback() -> None:
    """Bring ``lo`` up in this network namespace."""
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM, 0)
    fcntl.ioctl(any_socket.fileno(), _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    any_socket.close()


def set_rules(batch: bytes) -> None:
    """Apply a batch of nftables messages, as a whole or not at all. Raises OSError."""
    netlink = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_NETFILTER)
    netlink.bind((0, 0))
    netlink.send(batch)
    answer = netlink.recv(1 << 16)
    netlink.close()
    kind, error = struct.unpack_from("=4xH10xi", answer)
    if kind == _NLMSG_ERROR and error != 0:
        message = f"nftables: {os.strerror(-error)}; try `sudo modprobe -a nf_tables nft_reject_ipv4`"
        raise OSError(-error, message)


def publish_namespace(process: int, folder: str) -> None:
    """Bind a process's network namespace to a file in ``folder``, so that a program outside can join it."""
    path = f"{folder}/{NETNS}"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(f"/proc/{process}/ns/net", path, flags=MS_BIND)


class NetworkProgram:
    """The program that connects a VM to the network, which starts while the VM does.

    It runs in the host's network namespace and in the outer user namespace of the VM, so on the host it may do no more
    than the VM. Its id is in no VM, so the kernel counts its resources apart from theirs (``shares.py``).
    """

    def __init__(self, spec: dict[str, Any], folder: str, log: int) -> None:
        """Fork while this process is in the host's network namespace; the child waits there for ``go``."""
        self._spec = spec
        wait, self._go = os.pipe()
        self._ready, ready = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._go)
                if os.read(wait, 1) == b"1":
                    self._execute(folder, log, ready)
            finally:
                os._exit(127)
        os.close(wait)
        os.close(ready)

    def go(self) -> None:
        """Let the program start, after the namespace is published and its rules are set."""
        os.write(self._go, b"1")
        os.close(self._go)

    def wait(self) -> None:
        """Return when the network is up. Raises OSError if it does not come up in time."""
        program, seconds = self._spec["argv"][0], self._spec["seconds"]
        poll = select.poll()
        poll.register(self._ready if self._spec["ready"] == "fd" else os.pidfd_open(self._pid), select.POLLIN)
        if not poll.poll(seconds * 1000):
            message = f"{program} did not bring the network up in {seconds:g} s"
            raise OSError(message)
        if not self._is_up():
            message = f"{program} did not bring the network up"
            raise OSError(message)

    def _is_up(self) -> bool:
        """Read the program's report: a byte, or success when it goes to the background."""
        if self._spec["ready"] == "fd":
            return os.read(self._ready, 1) == b"1"
        return os.waitpid(self._pid, 0)[1] == 0

    def _execute(self, folder: str, log: int, ready: int) -> NoReturn:
        restore_signals()
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LOG_BYTES, _LOG_BYTES))
        os.chdir(folder)
        null = os.open("/dev/null", os.O_RDWR)
        for standard, descriptor in enumerate((null, null, log)):
            os.dup2(descriptor, standard)
        argv = list(self._spec["argv"])
        if self._spec["ready"] == "fd":
            os.set_inheritable(ready, True)  # noqa: FBT003 - the function's own argument
            argv.append(f"--ready-fd={ready}")
        os.setresuid(NETWORK_PROGRAM_ID, 0, 0)
        os.execve(argv[0], argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})  # noqa: S606 - fixed by the service
