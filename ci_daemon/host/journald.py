"""The journal's native protocol: log lines with fields to search for, as in `journalctl CI_BUILD=…`."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import struct
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

# Considered: `systemd-python` has no wheels, so each host would need a compiler and libsystemd's headers. `cysystemd`
# has some, for glibc alone and with 3.5 MB of libraries; its `send` reports success where journald does not listen.

SOCKET = Path("/run/systemd/journal/socket")

_FORBIDDEN = re.compile(r"[^A-Z0-9_]")
_MAX_NAME = 64


@immutable
class Journal:
    """Sends entries, each a set of fields and values, to journald."""

    connection: socket.socket

    @classmethod
    def connect(cls, address: Path = SOCKET) -> Journal:
        """Connect to journald. Raises OSError if nothing listens."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            connection.connect(str(address))
        except OSError:
            connection.close()
            raise
        return cls(connection)

    def send(self, fields: Mapping[str, str]) -> None:
        """Send one entry, as a sealed memory file if it is too large for a datagram. Raises OSError."""
        entry = b"".join(_field(name, value) for name, value in fields.items())
        try:
            self.connection.sendall(entry)
        except OSError as error:
            if error.errno not in {errno.EMSGSIZE, errno.ENOBUFS}:
                raise
            self._send_memfd(entry)

    def _send_memfd(self, entry: bytes) -> None:
        descriptor = os.memfd_create("journal-entry", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with closing(os.fdopen(descriptor, "wb", buffering=0)) as file:
            file.write(entry)
            seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
            socket.send_fds(self.connection, [b""], [descriptor])


def _field(name: str, value: str) -> bytes:
    """Encode a field with the length of its value, so that no value can forge another field."""
    key = _FORBIDDEN.sub("_", name.upper())[:_MAX_NAME].encode()
    content = value.encode(errors="backslashreplace")
    return key + b"\n" + struct.pack("<Q", len(content)) + content + b"\n"
