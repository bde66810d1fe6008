"""One SSH connection to a VM: commands with a deadline, output as a stream (engine.md, "Leases")."""

from __future__ import annotations

import io
import socket
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

import paramiko

from actors.vms.provider import VmError
from actors.vms.ssh.errors import CommandTimeout, ConnectionLost
from actors.vms.ssh.files import in_bytes
from actors.vms.ssh.forwarding import VmSocket, remote_forward
from actors.vms.ssh.pipes import PipeStream
from actors.vms.ssh.stream import DISCONNECT_ERRORS, Deadline, InteractiveSession, Stream
from actors.vms.ssh.transport import BoundedSocket, Transport
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.vms.provider import SshEndpoint, SshSocket
    from actors.vms.ssh.files import FileBytes
    from actors.vms.ssh.stream import Completed, Pty
    from storage import Clock

_KEEPALIVE_SECONDS = 15
_LOOK_SECONDS = 5.0
"""Seconds between checks for a due keepalive. Paramiko checks ten times a second, for each VM."""

_START_SECONDS = 20.0
_UNACKNOWLEDGED_MS = 60_000
_PACKET_BYTES = 1 << 17
"""The most data of one packet, four times paramiko's default: Python takes as long for a small one."""

_KEX = ("ecdh-sha2-nistp256", "curve25519-sha256@libssh.org")
"""OpenSSH has curve25519 in portable C, which takes 2 ms more of CPU for each VM than OpenSSL's P-256."""

_KEYS: dict[str, type[paramiko.PKey]] = {
    "ecdsa-sha2-nistp256": paramiko.ECDSAKey,
    "ssh-ed25519": paramiko.Ed25519Key,
}
"""The kinds of keys: both of a VM are of one. Those of VMs of earlier releases are of the last."""

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")


class HostKeyMismatch(VmError):
    """The server is not the VM that was made: its host key is not the pinned one. Nothing was sent to it."""


class Connection:
    """An authenticated SSH connection on an endpoint's socket. Any number of threads may share it.

    Connecting blocks for at most ``timeout`` seconds and raises ConnectionLost or HostKeyMismatch.
    """

    def __init__(self, endpoint: SshEndpoint, clock: Clock, *, timeout: float = 20.0) -> None:
        self._clock = clock
        self._pipes = endpoint.pipes
        try:
            _set_socket_options(endpoint.socket)
            sock: Any = BoundedSocket(endpoint.socket)  # it acts as one
            self._transport = Transport(sock, _PACKET_BYTES)
        except OSError as error:
            message = f"the VM's socket is closed: {error_reason(error)}"
            raise ConnectionLost(message) from error
        try:
            self._handshake(endpoint, Deadline(clock, timeout))
        except BaseException:
            self._transport.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """True if commands can be started on it."""
        return self._transport.is_active()

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout: float,
        limit: int = 16 << 20,
    ) -> Completed:
        """Run a POSIX shell script in the VM and return its outcome, whatever its exit code.

        Takes at most ``limit`` bytes of stdout, because a VM may send anything. Raises ConnectionLost,
        CommandTimeout after ``timeout`` seconds, OutputTooLong, and what iterating over ``stdin`` raises.
        """
        with self.stream(script, stdin=stdin, timeout=timeout) as output:
            return output.complete(limit)

    def stream(self, script: str, *, stdin: bytes | Iterable[bytes] | None = b"", timeout: float | None) -> Stream:
        """Start a POSIX shell script in the VM and return its stdout as a stream of chunks.

        If ``stdin`` is None, `Stream.send` gives it, and it ends with the stream. Without a ``timeout`` the stream
        lasts as long as the command, which must still start within 20 seconds. Raises ConnectionLost or
        CommandTimeout.
        """
        deadline = Deadline(self._clock, timeout)
        starting = Deadline(self._clock, _START_SECONDS) if timeout is None else deadline
        return Stream(self._start(script, starting), deadline, stdin)

    def transfer(self, script: str, *, stdin: Iterable[bytes | FileBytes] = (), timeout: float) -> Stream | PipeStream:
        """Start a script that takes or gives much data, as `stream` does, by the shortest way into the VM.

        That is a pipe if the VM is on this host, else SSH. Raises what both do, VmLost, and FileCut.
        """
        if self._pipes is None:
            return self.stream(script, stdin=in_bytes(stdin), timeout=timeout)
        return PipeStream(self._pipes, script, stdin, Deadline(self._clock, timeout), self._transport.is_active)

    def open_socket(self, path: str, *, timeout: float) -> VmSocket:
        """Connect to a listening socket in the VM, for at most ``timeout`` seconds.

        Raises ConnectionLost or CommandTimeout.
        """
        deadline = Deadline(self._clock, timeout)
        try:
            return VmSocket(self._transport.open_socket(path, deadline), deadline)
        except DISCONNECT_ERRORS as error:
            if deadline.remaining() == 0:
                message = "the VM did not answer in time"
                raise CommandTimeout(message) from error
            message = f"the VM does not answer: {error_reason(error)}"
            raise ConnectionLost(message) from error

    def interactive(self, script: str, pty: Pty | None) -> InteractiveSession:
        """Start an interactive POSIX shell script in the VM, at a terminal if ``pty`` is given.

        Raises ConnectionLost or CommandTimeout.
        """
        return InteractiveSession(self._start(script, Deadline(self._clock, _START_SECONDS), pty))

    def _start(self, script: str, starting: Deadline, pty: Pty | None = None) -> paramiko.Channel:
        try:
            channel = self._transport.open_command(starting)
            channel.event = _DeadlineEvent(starting)
            if pty is not None:
                channel.get_pty(pty.term, pty.columns, pty.rows)
            channel.exec_command(script)
        except Exception as error:  # paramiko fails in many ways, see _handshake
            if starting.remaining() == 0:
                message = "the VM did not start a command in time"
                raise CommandTimeout(message) from error
            message = f"the connection to the VM is lost: {error_reason(error)}"
            raise ConnectionLost(message) from error
        return channel

    @contextmanager
    def forward(self, target: tuple[str, int]) -> Iterator[int]:
        """Yield a port on the VM's loopback that is forwarded to ``target``; closed at the end.

        ``target`` is an address as this host sees it. Raises ConnectionLost if the VM opens no port.
        """
        with ExitStack() as opened:
            try:
                port = opened.enter_context(remote_forward(self._transport, target))
            except DISCONNECT_ERRORS as error:
                message = f"the VM refuses to forward a port to this host: {error_reason(error)}"
                raise ConnectionLost(message) from error
            yield port

    def close(self) -> None:
        """End the connection and every command's channel on it. Idempotent."""
        self._transport.close()

    def _handshake(self, endpoint: SshEndpoint, deadline: Deadline) -> None:
        transport = self._transport
        options = transport.get_security_options()
        options.kex = _KEX
        options.ciphers = _CIPHERS
        options.key_types = tuple(_KEYS)
        seconds = deadline.remaining() or 0.0
        transport.banner_timeout = seconds
        try:
            transport.start_client(timeout=seconds)
            host_key = transport.get_remote_server_key()
            if f"{host_key.get_name()} {host_key.get_base64()}" != endpoint.host_key:
                message = "the VM's host key is not the expected one, so the connection was refused"
                raise HostKeyMismatch(message)
            key = _KEYS[host_key.get_name()].from_private_key(io.StringIO(endpoint.private_key))
            transport.auth_timeout = deadline.remaining() or 0.0
            transport.auth_publickey(endpoint.user, key)
        except paramiko.AuthenticationException as error:
            message = f"the VM refuses the key of its lease: {error_reason(error)}"
            raise ConnectionLost(message) from error
        except HostKeyMismatch:
            raise
        except Exception as error:  # paramiko fails in many ways on a peer that breaks the protocol
            message = f"the VM did not complete the SSH handshake: {error_reason(error)}"
            raise ConnectionLost(message) from error
        transport.set_keepalive(_KEEPALIVE_SECONDS)
        endpoint.socket.settimeout(_LOOK_SECONDS)


class _DeadlineEvent(threading.Event):
    """A channel's event for the answer to a request, with the deadline that paramiko lacks."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def wait(self, timeout: float | None = None) -> bool:
        super().wait(self._deadline.remaining() if timeout is None else timeout)
        self.set()
        return True


def _set_socket_options(sock: SshSocket) -> None:
    if isinstance(sock, socket.socket) and sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
