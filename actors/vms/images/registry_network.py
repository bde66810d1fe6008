"""The network of a pull: a namespace with a proxy that refuses this host and its surroundings.

A registry says from where an image's parts come, by redirects and in manifests, and skopeo follows.
So skopeo runs in a network namespace of its own (``proxied.py``), and this module connects it. Where a broker starts
the programs of VMs, it starts skopeo, too, for the service itself may make no namespace there. The registry's own
address may be anywhere, since the owner of the service chose the registry.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from actors.vms.public_addresses import is_public, is_within
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from actors.vms.host.ids import IdMap

_PROGRAM = Path(__file__).with_name("proxied.py")
_MOST_HEAD = 1 << 14
_BUFFER = 1 << 18
_SECONDS = 30.0


class _Refused(Exception):
    """A connection that is not made; the message says why, in one line."""


@immutable
class RegistryNetwork:
    """The hosts that a pull may reach: the registry, public ones, and those in some networks.

    A registry on the loopback of ``this_host`` is the owner's own: its pulls may go everywhere.
    """

    registry: str
    idmap: IdMap
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    this_host: bool = False

    @contextmanager
    def entered(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """Yield the command line that runs a program in this network, and the descriptors that it inherits.

        The program runs in ``folder`` with this ``environment``, the proxy in it, and the ids of the caller.

        Where the environment names a proxy for https, the program runs as it is: that proxy decides.
        """
        if self.this_host or "https" in getproxies_environment():
            yield [*argv], ()
            return
        ours, theirs = socket.socketpair()
        sent = marshal.dumps(dict(environment))
        thread = threading.Thread(target=self._serve, args=(ours, sent), name=f"proxy for {self.registry}", daemon=True)
        with theirs:
            thread.start()
            try:
                own = [str(theirs.fileno()), str(os.geteuid()), str(os.getegid()), str(folder.absolute())]
                program = [sys.executable, "-I", str(_PROGRAM), *own, *argv]
                yield self.idmap.with_caller().command(program), (theirs.fileno(),)
            finally:
                theirs.shutdown(socket.SHUT_RDWR)
                thread.join()

    def _serve(self, program: socket.socket, environment: bytes) -> None:
        """Connect what comes to the socket that a program sends, until its connection is shut."""
        with program:
            try:
                program.sendall(environment)
                _, handles, _, _ = socket.recv_fds(program, 1, 1)
            except OSError:  # it ended before
                return
            if not handles:
                return
            listener = socket.socket(fileno=handles[0])
            accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
            accepting.start()
            with listener:
                program.recv(1)
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                accepting.join()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # it was shut
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=self._connect, args=(connection,), daemon=True).start()

    def _connect(self, connection: socket.socket) -> None:
        """Do what a request to the proxy asks for."""
        with connection, suppress(OSError):
            connection.settimeout(_SECONDS)
            try:
                remote = self._remote(_head(connection))
            except _Refused as refusal:
                connection.sendall(f"HTTP/1.1 403 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            with remote:
                connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                connection.settimeout(None)
                remote.settimeout(None)
                back = threading.Thread(target=_copy, args=(remote, connection), daemon=True)
                back.start()
                _copy(connection, remote)
                back.join()

    def _remote(self, head: str) -> socket.socket:
        """Return a connection to where a request wants to. Raises _Refused."""
        method, _, rest = head.partition(" ")
        target = urlsplit(f"//{rest.partition(' ')[0]}") if method == "CONNECT" else None
        try:
            host, port = (target.hostname, target.port) if target else (None, None)
        except ValueError:
            host = port = None
        if host is None or port is None:
            raise _Refused("the registry redirects to another protocol than https")
        reason = f"{host} has no public address: allow its network in images.networks"
        for address in self._addresses(host, port):
            try:
                return socket.create_connection((address, port), timeout=_SECONDS)
            except OSError as error:
                reason = f"{host}: {error_reason(error).lower()}"
        raise _Refused(reason)

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise _Refused(f"no such host: {host}") from None
        addresses = dict.fromkeys(ip_address(str(each[4][0]).partition("%")[0]) for each in found)
        own = host == urlsplit(f"//{self.registry}").hostname
        return [str(each) for each in addresses if own or is_public(each) or is_within(each, self.networks)]


def _head(connection: socket.socket) -> str:
    """Return the first line of a request, whose header has come. Raises _Refused and OSError."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(_MOST_HEAD)
        head += part
        if not part or len(head) > _MOST_HEAD:
            raise _Refused("its request has no end")
    return head.partition(b"\r\n")[0].decode("latin-1")


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy what comes to another connection until there is no more, then end that one."""
    buffer = memoryview(bytearray(_BUFFER))
    with suppress(OSError):
        while size := source.recv_into(buffer):
            target.sendall(buffer[:size])
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
