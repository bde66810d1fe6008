"""PID 1 of an engine's instance: it makes the VM as on the service's own host, and ends with it.

The instance has a base image's tree as its root and the launcher in it (``actors/vms/incus/outer_images.py``). It has
no secret of its own: the service brings the keys by a program that it runs in the instance
(``container_requests.py``). As with a sandbox, the VM is in a user namespace below, whose shares are bounded here and
which owns the network. The engine gives the instance a network interface, which is handed to the VM and configured
there. In an instance with a kernel of its own, the engine's agent runs the service's programs, as the engine itself
does in a container.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import fcntl
import marshal
import os
import select
import struct
import time

from .init import GuestProcess
from .kernel import (
    CLONE_NEWNET,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    answer,
    await_children,
    ignore_children,
    join_descriptor,
    join_empty_keyring,
    make_read_only,
    mount,
    raise_oom_score,
    set_title,
    survive_failed_writes,
)
from .shares import bound_shares
from .syscall_filter import prepare
from .words import AGENT, BOOT, CONTROL, DOOR, END, FOLDER, INTERFACE, MESSAGE_BYTES, SSH

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn


_OUTER = f"{FOLDER}/outer"
_OOM_SCORE = 990
_BACKLOG = 128


def main(*, agent: bool = False) -> NoReturn:
    """Wait for the keys, make the VM, and run until it ends.

    An instance with a kernel of its own needs the engine's ``agent``.
    """
    try:
        await_children()
        survive_failed_writes()
        _signal.signal(_signal.SIGPWR, lambda *_: os._exit(0))  # the engine shuts the instance down
        mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m")
        os.mkdir(FOLDER, 0o700)
        join_empty_keyring()
        door = _listener(DOOR)
        if agent:
            start_agent()
        raise_oom_score(_OOM_SCORE)  # not of the agent: no VM is reached without it, and nothing starts it again
        prepare()
        _serve(door)
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        _say(error)
    finally:
        if agent:
            turn_off_agent()
        os._exit(1)


def _serve(door: _socket.socket) -> None:
    """Answer the programs at the door, until one asks for the end or the VM has ended."""
    poll = select.poll()
    poll.register(door.fileno(), select.POLLIN)
    vm = -1
    while all(ready != vm for ready, _ in poll.poll()):
        program = _socket.socket(fileno=door._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        word, _, content = program.recv(MESSAGE_BYTES).partition(b" ")
        if word == END:
            return
        if word == BOOT and vm < 0:
            vm = _boot(marshal.loads(content), program.fileno())  # noqa: S302 - from the service itself
            if vm >= 0:
                poll.register(vm, select.POLLIN)
        program.close()


def _boot(spec: dict[str, Any], report: int) -> int:
    """Make the VM and tell the service; return a pidfd of its PID 1, or -1 if it cannot be made."""
    try:
        vm = _make(spec, report)
    except OSError as error:
        answer(report, f"failed {error}\n".encode())
        return -1
    ignore_children()  # also what the service's programs leave
    set_title(b"ci-daemon VM")
    answer(report, b"ready\n")
    return vm


def _make(spec: dict[str, Any], report: int) -> int:
    arrivals = _bound(SSH, _socket.SOCK_DGRAM)
    control = _listener(CONTROL)
    spec["arrivals"], spec["control"] = arrivals.fileno(), control.fileno()
    os.mkdir(_OUTER, 0o700)
    mount("/", _OUTER, flags=MS_BIND)
    make_read_only(_OUTER)
    bound_shares(spec["limits"], spec["objects"])
    guest = GuestProcess(spec, _OUTER, report)
    if spec["network"]:
        hand_over_interface(INTERFACE, guest.pid)
        configure_interface(INTERFACE, spec["network"], guest.pid)
    guest.go()
    return os.pidfd_open(guest.pid)


def _listener(path: str) -> _socket.socket:
    listener = _bound(path, _socket.SOCK_SEQPACKET)
    listener.listen(_BACKLOG)
    return listener


def _bound(path: str, kind: int) -> _socket.socket:
    bound = _socket.socket(_socket.AF_UNIX, kind)
    bound.bind(path)
    return bound


def _say(error: Exception) -> None:
    """Tell the owner why there is no VM; the engine keeps what the console shows."""
    with open("/dev/console", "wb", buffering=0) as console:
        console.write(f"ci-daemon: {error}\n".encode())


_SHARE, _PROGRAM = "config", "incus-agent"
"""The file system by which the engine brings the agent with its keys, and the agent's name there."""

_OFF_SECONDS = 10.0


def start_agent() -> None:
    """Start the agent; it ends with the instance. Raises OSError."""
    os.mkdir(AGENT, 0o700)
    mount(_SHARE, AGENT, "9p", data="trans=virtio")
    if os.fork() == 0:
        try:
            os.chdir(AGENT)
            os.execv(f"./{_PROGRAM}", [_PROGRAM])  # noqa: S606 - the engine's own
        finally:
            os._exit(127)


def turn_off_agent() -> None:
    """Turn the instance off: the engine would start again one whose kernel panics without its PID 1."""
    with open("/proc/sysrq-trigger", "wb", buffering=0) as file:
        file.write(b"o")
    time.sleep(_OFF_SECONDS)


_NETLINK_ROUTE, _RTM_NEWLINK, _REQUEST_AND_ACK, _IFLA_NET_NS_PID = 0, 16, 0x5, 19
_ERROR_AT = 16
_SIOCADDRT, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x890B, 0x8914, 0x8916, 0x891C
_IFF_UP, _RTF_UP, _RTF_GATEWAY = 1, 1, 2


def hand_over_interface(name: str, process: int) -> None:
    """Move an interface to the network namespace of a process. Raises OSError."""
    attribute = struct.pack("=HHI", 8, _IFLA_NET_NS_PID, process)
    link = struct.pack("=BxHiII", 0, 0, _socket.if_nametoindex(name), 0, 0) + attribute
    netlink = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_ROUTE)
    netlink.bind((0, 0))
    netlink.send(struct.pack("=IHHII", 16 + len(link), _RTM_NEWLINK, _REQUEST_AND_ACK, 1, 0) + link)
    (error,) = struct.unpack_from("=i", netlink.recv(1 << 14), _ERROR_AT)
    netlink.close()
    if error:
        message = f"{name} cannot be given to the VM: {os.strerror(-error)}"
        raise OSError(-error, message)


def configure_interface(name: str, settings: dict[str, Any], process: int) -> None:
    """Give the interface its address and the route to the gateway, in the network namespace of a process.

    Raises OSError.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            join_descriptor(os.open(f"/proc/{process}/ns/net", os.O_RDONLY), CLONE_NEWNET)
            _configure(name.encode(), settings)
            status = 0
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        message = f"{name} cannot be configured"
        raise OSError(message)


def _configure(name: bytes, settings: dict[str, Any]) -> None:
    control = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM, 0)
    for request, address in ((_SIOCSIFADDR, settings["address"]), (_SIOCSIFNETMASK, settings["netmask"])):
        fcntl.ioctl(control.fileno(), request, struct.pack("16s16s8x", name, _address(address)))
    fcntl.ioctl(control.fileno(), _SIOCSIFFLAGS, struct.pack("16sH22x", name, _IFF_UP))
    everything = _address("0.0.0.0")  # noqa: S104 - the destination of a route
    fcntl.ioctl(
        control.fileno(),
        _SIOCADDRT,
        struct.pack(
            "@L16s16s16sH54x", 0, everything, _address(settings["gateway"]), everything, _RTF_UP | _RTF_GATEWAY
        ),
    )
    control.close()


def _address(text: str) -> bytes:
    """Return an IPv4 address as the kernel's ``sockaddr_in``."""
    return struct.pack("=HH4s8x", _socket.AF_INET, 0, _socket.inet_aton(text))
