"""One SSH connection to a VM: commands with a deadline, their output as it comes (engine.md, "Leases")."""

from __future__ import annotations

import io
import shlex
import socket
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import paramiko

from actors.vms.forward import forwarded
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.vms.provider import Endpoint
    from storage import Clock

__all__ = [
    "CommandTimeout",
    "Completed",
    "Connection",
    "ConnectionLost",
    "HostKeyMismatch",
    "OutputTooLong",
    "Stream",
]

_BLOCK = 1 << 20
_STDIN_BLOCK = 1 << 16
_STDERR_KEPT = 1 << 16
_KEEPALIVE = 15
_UNANSWERED_MS = 60_000
_DROPPED = (paramiko.SSHException, OSError, EOFError)
"""What paramiko raises when the other side is gone, or a channel is closed."""

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")


class ConnectionLost(VmError):
    """The connection could not be made, dropped, or ended a command without its exit status. A new one may work."""


class HostKeyMismatch(VmError):
    """Who answered is not the VM that was made: its host key is not the pinned one. Nothing was sent to it."""


class CommandTimeout(VmError):
    """A command did not end in its time. Its channel is closed; whether it still runs in the VM is not known."""


class OutputTooLong(VmError):
    """A command that should answer briefly printed more than its limit."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended by itself; ``stderr`` is its last 64 KiB."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Connection:
    """An authenticated SSH connection on an endpoint's socket. Any number of threads may use it at the same time.

    Making one blocks for at most ``timeout`` seconds and raises ConnectionLost or HostKeyMismatch.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock, *, timeout: float = 20.0) -> None:
        self._clock = clock
        try:
            _tune(endpoint.socket)
            self._transport = paramiko.Transport(endpoint.socket)
        except OSError as error:
            message = f"the VM's socket is closed: {error}"
            raise ConnectionLost(message) from error
        try:
            self._handshake(endpoint, _Deadline(clock, timeout))
        except BaseException:
            self._transport.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether commands can be started on it."""
        return self._transport.is_active()

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout: float,
        limit: int = 16 << 20,
    ) -> Completed:
        """Run a POSIX shell script in the VM to its end and return what came of it, whatever its exit code.

        At most ``limit`` bytes of stdout are taken, since a VM may answer anything. Raises ConnectionLost,
        CommandTimeout after ``timeout`` seconds, OutputTooLong, and what iterating over ``stdin`` raises.
        """
        blocks: list[bytes] = []
        size = 0
        with self.stream(script, stdin=stdin, timeout=timeout) as output:
            for block in output:
                size += len(block)
                if size > limit:
                    message = f"a command in the VM printed more than {limit} bytes"
                    raise OutputTooLong(message)
                blocks.append(block)
        return Completed(output.exit_code, b"".join(blocks), output.stderr)

    def stream(self, script: str, *, stdin: bytes | Iterable[bytes] = b"", timeout: float | None) -> Stream:
        """Start a POSIX shell script in the VM and return its stdout as a stream of blocks.

        Raises ConnectionLost or CommandTimeout. Without a ``timeout`` the stream lasts as long as the command, its
        start still has 20 seconds.
        """
        deadline = _Deadline(self._clock, timeout)
        starting = _Deadline(self._clock, 20.0) if timeout is None else deadline
        try:
            channel = self._transport.open_session(timeout=starting.remaining())
            channel.event = _Patience(starting)
            channel.exec_command(f"exec /bin/sh -c {shlex.quote(script)}")
        except _DROPPED as error:
            if starting.remaining() == 0:
                message = "the VM did not start a command in time"
                raise CommandTimeout(message) from error
            message = f"the connection to the VM is gone: {_reason(error)}"
            raise ConnectionLost(message) from error
        return Stream(channel, deadline, _blocks(stdin))

    @contextmanager
    def forward(self, target: tuple[str, int]) -> Iterator[int]:
        """Yield a port of the VM's own loopback that comes out at ``target`` on this host; closed again at the end.

        Raises ConnectionLost where there is none to be had.
        """
        with ExitStack() as opened:
            try:
                port = opened.enter_context(forwarded(self._transport, target))
            except _DROPPED as error:
                message = f"the VM opens no port of its own to this host: {_reason(error)}"
                raise ConnectionLost(message) from error
            yield port

    def close(self) -> None:
        """End the connection and every command's channel on it. Idempotent."""
        self._transport.close()

    def _handshake(self, endpoint: Endpoint, deadline: _Deadline) -> None:
        transport = self._transport
        options = transport.get_security_options()
        options.ciphers = _CIPHERS
        options.key_types = ("ssh-ed25519",)
        seconds = deadline.remaining() or 0.0
        transport.banner_timeout = transport.handshake_timeout = seconds
        try:
            transport.start_client(timeout=seconds)
            host_key = transport.get_remote_server_key()
            if f"{host_key.get_name()} {host_key.get_base64()}" != endpoint.host_key:
                message = "the VM answered with a host key that is not its own: the connection is refused"
                raise HostKeyMismatch(message)
            key = paramiko.Ed25519Key.from_private_key(io.StringIO(endpoint.private_key))
            transport.auth_timeout = deadline.remaining() or 0.0
            transport.auth_publickey(endpoint.user, key)
        except paramiko.AuthenticationException as error:
            message = f"the VM refuses the key of its lease: {error}"
            raise ConnectionLost(message) from error
        except _DROPPED as error:
            message = f"the VM did not complete the SSH handshake: {_reason(error)}"
            raise ConnectionLost(message) from error
        transport.set_keepalive(_KEEPALIVE)


class Stream:
    """A running command's stdout, block by block as it comes; ``exit_code`` and ``stderr`` are there after its end.

    One thread iterates; any other may close.
    """

    def __init__(self, channel: paramiko.Channel, deadline: _Deadline, stdin: Iterator[bytes]) -> None:
        self.exit_code = -1
        self.stderr = b""
        self._channel = channel
        self._deadline = deadline
        self._closed = False
        self._stdin_failure: Exception | None = None
        # Both buffers set it when they get something. It may be cleared while the other still has data, so nobody waits
        # on it without having found both empty.
        self._arrived = threading.Event()
        channel.in_buffer.set_event(self._arrived)
        channel.in_stderr_buffer.set_event(self._arrived)
        self._feeder: threading.Thread | None = None
        if (first := next(stdin, None)) is None:
            with suppress(*_DROPPED):
                channel.shutdown_write()
        else:
            self._feeder = threading.Thread(target=self._feed, args=(first, stdin), name="ssh-stdin", daemon=True)
            self._feeder.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks until the command has ended or ``close`` was called.

        Raises ConnectionLost where it ended without an exit status, CommandTimeout at the deadline.
        """
        channel = self._channel
        while True:
            ended = bool(channel.eof_received) or channel.closed
            if channel.recv_stderr_ready():
                self.stderr = (self.stderr + channel.recv_stderr(_BLOCK))[-_STDERR_KEPT:]
            elif channel.recv_ready():
                yield channel.recv(_BLOCK)
            elif ended:
                break
            elif not self._arrived.wait(self._deadline.remaining()):
                self._give_up()
        self._take_exit_code()

    def close(self) -> None:
        """Close the channel; the command in the VM is not told. Idempotent."""
        self._closed = True
        with suppress(*_DROPPED):
            self._channel.close()

    def _take_exit_code(self) -> None:
        if not self._closed and not self._channel.status_event.wait(self._deadline.remaining()):
            self._give_up()
        if self._stdin_failure is not None:
            raise self._stdin_failure
        self.exit_code = self._channel.exit_status
        if self.exit_code == -1 and not self._closed:
            message = "a command in the VM ended without an exit status: the connection dropped or it was killed"
            raise ConnectionLost(message)
        if self._feeder is not None:
            self.close()
            self._feeder.join(1.0)

    def _give_up(self) -> None:
        # A VM that has stopped reading would keep a plain close() waiting for room in the socket.
        closing = threading.Thread(target=self.close, name="ssh-close", daemon=True)
        closing.start()
        closing.join(1.0)
        message = f"a command in the VM did not end within {self._deadline.seconds:g} s"
        raise CommandTimeout(message)

    def _feed(self, block: bytes | None, stdin: Iterator[bytes]) -> None:
        with suppress(*_DROPPED):  # the command has ended and wants no more
            while block is not None:
                self._channel.sendall(block)
                try:
                    block = next(stdin, None)
                except Exception as error:  # noqa: BLE001 - handed to the thread that reads the stream
                    self._stdin_failure = error
                    self._channel.close()
                    return
            self._channel.shutdown_write()


class _Deadline:
    """A moment by which something is done; None is never."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self._clock = clock
        self._end = None if seconds is None else clock.monotonic() + seconds

    def remaining(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - self._clock.monotonic())


class _Patience(threading.Event):
    """Stands in for the event by which a channel awaits the answer to a request, which paramiko does without limit."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def wait(self, timeout: float | None = None) -> bool:
        super().wait(self._deadline.remaining() if timeout is None else timeout)
        self.set()
        return True


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _tune(sock: socket.socket) -> None:
    if sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


def _blocks(stdin: bytes | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(stdin, bytes):
        return (stdin[start : start + _STDIN_BLOCK] for start in range(0, len(stdin), _STDIN_BLOCK))
    return iter(stdin)
