"""A server of this host, which jobs reach or must not reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from actors.vms.host.network import host_addresses

GREETING = b"hello\n"


def own_address() -> str:
    """Return an address of this host that is not a loopback one; every host with a network has one."""
    return next(str(block.network_address) for block in host_addresses() if not block.is_loopback)


@contextmanager
def greeter(address: str = "0.0.0.0") -> Iterator[int]:
    """Send the greeting to each connection; yields the port."""
    with socket.create_server((address, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(GREETING)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
