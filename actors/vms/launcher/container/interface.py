"""The network interface that the engine gives an instance: handed to the VM, and configured there."""

from __future__ import annotations

import _socket
import fcntl
import os
import struct

from ..kernel import CLONE_NEWNET, join_descriptor

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any

_NETLINK_ROUTE, _RTM_NEWLINK, _REQUEST_AND_ACK, _IFLA_NET_NS_PID = 0, 16, 0x5, 19
_ERROR_AT = 16
_SIOCADDRT, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x890B, 0x8914, 0x8916, 0x891C
_IFF_UP, _RTF_UP, _RTF_GATEWAY = 1, 1, 2


def hand_over(name: str, process: int) -> None:
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


def configure(name: str, settings: dict[str, Any], process: int) -> None:
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
