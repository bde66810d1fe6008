"""Programs in instances, with their standard streams over websockets.

A websocket has a connection of its own, and its calls never wait. No thread carries the streams: who reads a program's
output or writes its input does so on the websocket itself. To receive 100 MB takes 0.15 s of CPU time this way, and
took 0.24 s with asyncio.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from contextlib import ExitStack, suppress
from math import inf
from typing import TYPE_CHECKING, Self

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from actors.vms.incus.engine import operation_of, part
from actors.vms.provider import VmError
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websockets.typing import BytesLike

    from actors.vms.incus.engine import Engine


_BLOCK_BYTES = 1 << 18
_ERROR_BYTES = 4096
_LAST_OUTPUT_SECONDS = 2.0
_STREAMS = ("0", "1", "2")
_NO_CLUSTER = "none"


@immutable
class Result:
    """All that a program wrote, of its errors the last."""

    output: bytes
    errors: bytes


class Program:
    """A program in an instance, as a socket of its standard input and output; each may have a thread."""

    def __init__(self, name: str, engine: Engine, operation: str, streams: Sequence[WebSocket]) -> None:
        self.errors = bytearray()
        """The last of what it wrote to its standard error, as far as it has come."""

        self._name = name
        self._engine = engine
        self._operation = operation
        self._streams = streams
        self._input, self._output, self._errors = streams
        self._received = b""
        self._seconds: float | None = None
        self._sending = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settimeout(self, seconds: float | None) -> None:
        """Let each following call wait for at most so many seconds."""
        self._seconds = seconds

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes of output, nothing at its end. Raises TimeoutError."""
        end = self._deadline()
        while not self._received:
            data = self._output.receive()
            if data is None:
                self._wait(self._output, select.POLLIN, end)
            elif data:
                self._received = data
            else:
                break
        data, self._received = self._received[:size], self._received[size:]
        return data

    def send(self, data: bytes) -> int:
        """Send input, and return its size. Raises BrokenPipeError and TimeoutError.

        After a TimeoutError, the next call goes on with what is left: it must be with the same data, as in TLS.
        """
        if data:
            self._send(data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        """Send input. Raises as `send` does."""
        self.send(data)

    def shutdown(self, how: int) -> None:
        """End the input, or hang up, as on a socket."""
        if how == socket.SHUT_WR:
            self._send(b"")
        else:
            for stream in self._streams:
                stream.hang_up()

    def close(self) -> None:
        """Hang up, which kills the program if it still runs. Idempotent."""
        for stream in self._streams:
            stream.close()

    def complete(self, stdin: bytes, seconds: float) -> Result:
        """Return what it writes until it ends its output; it need not read all of its input.

        Raises VmError if it takes too long.
        """
        output = bytearray()
        self.settimeout(seconds)
        try:
            with suppress(BrokenPipeError):
                self.send(stdin)
                self.shutdown(socket.SHUT_WR)
            while block := self.recv(_BLOCK_BYTES):
                output += block
            self.read_errors()
        except TimeoutError as error:
            message = f"{self._name} did not end within {seconds:g} s"
            raise VmError(message) from error
        return Result(bytes(output), bytes(self.errors))

    def end_reason(self) -> str:
        """Return how it ended, as the engine says."""
        try:
            return f"it ended with exit code {self.exit_code(_LAST_OUTPUT_SECONDS)}"
        except VmError as error:
            return str(error)

    def exit_code(self, seconds: float) -> int:
        """Wait for the end; return its exit code. Raises EngineError if it is not known, or too late."""
        status = self._engine.done({"type": "async", "operation": self._operation}, seconds)
        return int(status["return"])

    def read_errors(self) -> None:
        """Read the standard error to its end, which follows that of the output; wait 2 s at most."""
        end = time.monotonic() + _LAST_OUTPUT_SECONDS
        with suppress(TimeoutError):
            while not self._errors.ended and time.monotonic() < end:
                self._wait(self._errors, select.POLLIN, end)

    def _send(self, data: bytes) -> None:
        end = self._deadline()
        with self._sending:
            self._input.put(data)
            while not self._input.flush():
                self._wait(self._input, select.POLLOUT, end)

    def _deadline(self) -> float:
        return inf if self._seconds is None else time.monotonic() + self._seconds

    def _wait(self, stream: WebSocket, event: int, end: float) -> None:
        """Wait for a stream; meanwhile read what comes beside it. Raises TimeoutError."""
        poll = select.poll()
        beside = [each for each in (self._input, self._errors) if not each.ended]
        for each in beside:
            poll.register(each.descriptor, select.POLLIN)
        poll.register(stream.descriptor, event | (select.POLLIN if stream in beside else 0))
        ready = dict(poll.poll(None if end == inf else max(0.0, end - time.monotonic()) * 1000))
        if not ready:
            raise TimeoutError
        for each in beside:
            while each.descriptor in ready and (data := each.receive()):
                if each is self._errors:
                    self.errors += data
                    del self.errors[:-_ERROR_BYTES]


class ExecStreams:
    """A starter of programs in the instances of an engine. Safe in any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(self, instance: str, argv: Sequence[str]) -> Program:
        """Start a program as root of an instance. Raises NotFound, EngineError and EngineAway."""
        body = {"command": list(argv), "environment": {}, "wait-for-websocket": True, "interactive": False}
        answer = self._engine.begin("POST", f"/1.0/instances/{part(instance)}/exec", body)
        operation, begun = operation_of(answer), answer["metadata"]
        paths = [f"{operation}/websocket?secret={begun['metadata']['fds'][name]}" for name in _STREAMS]
        name = f"{argv[0]} in {instance}"
        try:
            return Program(name, self._engine, operation, self._open(begun.get("location", _NO_CLUSTER), paths))
        except (OSError, WebSocketException) as error:
            message = f"the engine does not carry the streams of {name}: {error_reason(error)}"
            raise VmError(message) from error

    def complete(self, instance: str, argv: Sequence[str], stdin: bytes, seconds: float) -> Result:
        """Run a program until it ends its output. Raises as `start` and `Program.complete` do."""
        with self.start(instance, argv) as program:
            return program.complete(stdin, seconds)

    def _open(self, member: str, paths: Sequence[str]) -> list[WebSocket]:
        """Open the websockets of a program.

        None is opened for control: Incus may crash if that one comes after its program has ended.
        """
        with ExitStack() as undo:
            connections = [undo.enter_context(self._connection(member)) for _ in paths]
            opened = list(map(WebSocket, connections, paths))
            self._engine.keep_session(connections[0])
            undo.pop_all()
        return opened

    def _connection(self, member: str) -> socket.socket:
        """Connect to a program's member itself, if it is known and answers, because another one forwards all."""
        home = None if member == _NO_CLUSTER else self._engine.home(member)
        if home is not None:
            with suppress(OSError):
                return self._engine.dial(home)
        return self._engine.dial(self._engine.address)


_READ_BYTES = 1 << 17
"""Bytes that are parsed at once: eight records of TLS or more, whose frames are cheaper together."""

_DATA = frozenset({Opcode.TEXT, Opcode.BINARY})
_STREAM = _DATA | {Opcode.CONT}
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WebSocket:
    """A stream of bytes in messages, of which an empty one ends the stream. Safe in any thread.

    The engine's pings get no answer: it waits for none, and one that came after it has closed would make the kernel
    drop what is yet unread.
    """

    def __init__(self, connected: socket.socket, path: str) -> None:
        """Open a websocket within the connection's time-out. Raises OSError and WebSocketException."""
        self.ended = False
        self.descriptor = connected.fileno()
        self._socket = connected
        self._lock = threading.Lock()
        self._protocol = ClientProtocol(parse_uri(f"ws://engine{path}"), max_size=None)
        self._unsent = memoryview(b"")
        self._protocol.send_request(self._protocol.connect())
        connected.sendall(b"".join(self._protocol.data_to_send()))
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            if block := connected.recv(_READ_BYTES):
                self._protocol.receive_data(block)
            else:
                self._protocol.receive_eof()
        if self._protocol.handshake_exc is not None:
            raise self._protocol.handshake_exc
        self._early = self._taken()
        connected.settimeout(0)

    def receive(self) -> bytes | None:
        """Return what has come of the stream; nothing at its end, None if nothing has come yet."""
        with self._lock:
            taken, self._early = self._early, []
            while not taken and not self.ended:
                if block := self._read():
                    self._protocol.receive_data(block)
                    taken = self._taken()
                elif not self.ended:
                    return None
            return b"".join(taken)

    def put(self, data: bytes) -> None:
        """Take data to send, unless what was taken before is not sent yet; nothing ends the stream."""
        with self._lock:
            if not self._unsent:
                send = self._protocol.send_binary if data else self._protocol.send_text
                send(data)
                self._unsent = memoryview(b"".join(self._protocol.data_to_send()))

    def flush(self) -> bool:
        """Send what can be sent now; tell whether that was all. Raises BrokenPipeError."""
        with self._lock:
            while self._unsent:
                if self.ended:
                    raise BrokenPipeError
                try:
                    self._unsent = self._unsent[self._socket.send(self._unsent) :]
                except _NOT_NOW:
                    return False
                except OSError as error:
                    self.ended = True
                    raise BrokenPipeError from error
            return True

    def hang_up(self) -> None:
        """End the stream, and wake who waits for the descriptor."""
        with self._lock:
            self.ended = True
            with suppress(OSError):  # it has ended or is closed
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up and close the connection. Idempotent."""
        self.hang_up()
        with self._lock:
            self._socket.close()

    def _read(self) -> bytearray:
        """Read what has come, and note if the connection has ended."""
        block, size = bytearray(_READ_BYTES), 0
        try:
            while size < _READ_BYTES and not self.ended:
                received = self._socket.recv_into(memoryview(block)[size:])
                size += received
                self.ended = received == 0
        except _NOT_NOW:
            pass
        except OSError:
            self.ended = True
        del block[size:]
        return block

    def _taken(self) -> list[BytesLike]:
        """Return what has come of messages up to the stream's end, and note that."""
        taken = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame) or event.opcode not in _STREAM:
                continue
            if event.data:
                taken.append(event.data)
            elif event.fin and event.opcode in _DATA:
                # A sender may split a message: what follows its first frame is as much of the stream, and may be empty.
                self.ended = True
                break
        self._protocol.data_to_send()
        self.ended = self.ended or self._protocol.state is not State.OPEN
        return taken
