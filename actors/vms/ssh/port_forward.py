"""A port on the VM's loopback, forwarded to the host while its context is open."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from actors.vms.ssh.receive_limits import limit_unread
from actors.vms.ssh.stream import DISCONNECT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import paramiko

_CHUNK_BYTES = 1 << 16
_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 10.0


@contextmanager
def remote_forward(transport: paramiko.Transport, target: tuple[str, int]) -> Iterator[int]:
    """Yield a port on the VM's loopback that is forwarded to ``target``; closed at the end.

    ``target`` is an address as this host sees it. Raises SSHException if the VM's sshd opens no port.
    """
    opened: list[Callable[[], None]] = []

    def accept(channel: paramiko.Channel, _origin: object, _server: object) -> None:
        limit_unread(channel)
        threading.Thread(target=_connect_both, args=(channel, target, opened), name="ssh-forward", daemon=True).start()

    port = transport.request_port_forward(_LOOPBACK, 0, accept)
    try:
        yield port
    finally:
        with suppress(*DISCONNECT_ERRORS):
            transport.cancel_port_forward(_LOOPBACK, port)
        for close in opened:
            with suppress(*DISCONNECT_ERRORS):
                close()


def _connect_both(channel: paramiko.Channel, target: tuple[str, int], opened: list[Callable[[], None]]) -> None:
    opened.append(channel.close)
    try:
        host = socket.create_connection(target, timeout=_CONNECT_SECONDS)
    except OSError:
        channel.close()
        return
    host.settimeout(None)

    def close_host() -> None:
        host.shutdown(socket.SHUT_RDWR)

    opened.append(close_host)
    back = threading.Thread(
        target=_copy, args=(host.recv, channel.sendall, channel.shutdown_write), name="ssh-forward", daemon=True
    )
    back.start()
    _copy(channel.recv, host.sendall, lambda: host.shutdown(socket.SHUT_WR))
    back.join()
    channel.close()
    host.close()


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], object], end: Callable[[], object]) -> None:
    with suppress(*DISCONNECT_ERRORS):
        while chunk := read(_CHUNK_BYTES):
            write(chunk)
    with suppress(*DISCONNECT_ERRORS):
        end()
