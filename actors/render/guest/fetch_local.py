"""Download a source archive from the service; runs in the VM, before any user code.

The service is at a port of the VM's loopback. Only modules inside of Python are imported: others would take longer than
the download. The service adds the call of ``main``. If it fails, it exits with 1 and a sentence on stderr.
"""

from __future__ import annotations

import _socket
import os
import sys

_CHUNK_BYTES = 1 << 18
_HEADER_BYTES = 1 << 16
_OK = b"200"


def main(port: int, path: str, into: str) -> None:
    """Download ``path`` with the token of the first line of stdin."""
    token = sys.stdin.readline().strip()
    service = _socket.socket()
    try:
        service.connect(("127.0.0.1", port))
        headers = f"Host: localhost\r\nUser-Agent: ci-daemon\r\nAuthorization: Bearer {token}\r\n"
        service.sendall(f"GET {path} HTTP/1.0\r\n{headers}\r\n".encode())
        _store(service, into)
    except (OSError, ValueError) as error:
        sys.exit(f"the service did not send the source: {error}")


def _store(service: _socket.socket, into: str) -> None:
    """Write the body of the response to a file."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = service.recv(_CHUNK_BYTES)
        if not chunk or len(received) > _HEADER_BYTES:
            raise OSError("its answer is incomplete")
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    if status.split()[1] != _OK:
        sys.exit(f"the service answered {status.partition(b' ')[2].decode()}")
    headers = {name.lower(): value for name, _, value in (line.partition(b":") for line in lines)}
    left = int(headers[b"content-length"]) - len(body)
    os.makedirs(os.path.dirname(into), exist_ok=True)  # noqa: PTH103, PTH120 - saves an import
    with open(into, "wb") as file:  # noqa: PTH123 - saves an import
        file.write(body)
        while left > 0:
            chunk = service.recv(_CHUNK_BYTES)
            if not chunk:
                raise OSError("its answer is incomplete")
            file.write(chunk)
            left -= len(chunk)
