"""Download a source archive from the service and unpack it; runs in the VM, before any user code.

It goes into the working directory. The first line of stdin has the service's port on the VM's loopback, a path and a
token. Only modules inside of Python are imported: others would take longer than the download. If it fails, it exits
with the status of tar, or with 1 and a sentence on stderr.
"""

from __future__ import annotations

import _socket
import os
import sys

_CHUNK_BYTES = 1 << 18
_HEADER_BYTES = 1 << 16
_TAR = ("tar", "-xzmof", "-")


def main() -> None:
    """Download and unpack what stdin asks for."""
    port, path, token = _line().split()
    service = _socket.socket()
    try:
        service.connect(("127.0.0.1", int(port)))
        headers = f"Host: localhost\r\nUser-Agent: ci-daemon\r\nAuthorization: Bearer {token}\r\n"
        service.sendall(f"GET {path} HTTP/1.0\r\n{headers}\r\n".encode())
        _unpack(service)
    except (OSError, ValueError) as error:
        sys.exit(f"the service did not send the source: {getattr(error, 'strerror', None) or error}")


def _line() -> str:
    """Read a line, and nothing after it: that is for the parent."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or sys.exit(1)
    return line.decode()


def _unpack(service: _socket.socket) -> None:
    """Unpack the body of the response."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = service.recv(_CHUNK_BYTES)
        if not chunk or len(received) > _HEADER_BYTES:
            raise OSError("its answer is incomplete")
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    if status.split()[1] != b"200":
        sys.exit(f"the service answered {status.partition(b' ')[2].decode()}")
    headers = {name.lower(): value for name, _, value in (line.partition(b":") for line in lines)}
    left = int(headers[b"content-length"]) - len(body)
    tar, archive = _start_tar()
    with open(archive, "wb") as file:  # noqa: PTH123 - saves an import
        file.write(body)
        while left > 0:
            chunk = service.recv(_CHUNK_BYTES)
            if not chunk:
                raise OSError("its answer is incomplete")
            file.write(chunk)
            left -= len(chunk)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(tar, 0)[1]))


def _start_tar() -> tuple[int, int]:
    """Start tar; return its process and a descriptor for the archive."""
    read, write = os.pipe()
    process = os.posix_spawnp(_TAR[0], _TAR, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)])
    os.close(read)
    return process, write


if __name__ == "__main__":
    main()
