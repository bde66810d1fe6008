"""Programs in instances, with their standard streams over websockets.

One thread of this process carries the streams of all programs. A caller has one end of a socket pair, from which and to
which the thread copies.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect, unix_connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from actors.vms.incus.engine import NotFound, operation_of, part
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from websockets.asyncio.client import ClientConnection

    from actors.vms.incus.engine import Engine

__all__ = ["ExecStreams", "Program", "Result"]

_OPEN_SECONDS = 20.0
_CLOSE_SECONDS = 1.0
_BLOCK_BYTES = 1 << 18
_BUFFER_BYTES = 1 << 20
_ERROR_BYTES = 4096
_LAST_OUTPUT_SECONDS = 2.0
_CONTROL = "control"
_STREAMS = ("0", "1", "2")
_END = ("", b"")
"""The frame by which each side says that a stream has ended."""


@immutable
class Result:
    """The end of a program."""

    exit_code: int
    output: bytes
    errors: bytes


class Program:
    """A program that runs in an instance.

    ``socket`` is its standard input and output; the caller closes it.
    """

    def __init__(self, streams: ExecStreams, operation: str, ours: socket.socket) -> None:
        self.socket = ours
        self.errors = bytearray()
        self._streams = streams
        self._operation = operation

    def exit_code(self, seconds: float) -> int:
        """Wait for the end; return its exit code. Raises EngineError if it is not known, or too late."""
        status = self._streams.engine.done({"type": "async", "operation": self._operation}, seconds)
        return int(status["return"])


class ExecStreams:
    """A starter of programs in the instances of an engine. Safe in any thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, instance: str, argv: Sequence[str]) -> Program:
        """Start a program as root of an instance. Raises NotFound, EngineError and EngineAway."""
        body = {"command": list(argv), "environment": {}, "wait-for-websocket": True, "interactive": False}
        answer = self.engine.begin("POST", f"/1.0/instances/{part(instance)}/exec", body)
        operation, secrets = operation_of(answer), answer["metadata"]["metadata"]["fds"]
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        theirs.settimeout(0)
        program = Program(self, operation, ours)
        try:
            self._run(self._begin(program, theirs, operation, secrets), _OPEN_SECONDS)
        except (OSError, WebSocketException, TimeoutError) as error:
            ours.close()
            theirs.close()
            message = f"the engine does not carry the streams of {argv[0]} in {instance}: {str(error) or 'too slow'}"
            raise VmError(message) from error
        return program

    def complete(self, instance: str, argv: Sequence[str], stdin: bytes, seconds: float) -> Result:
        """Run a program in an instance to its end. Raises as `start` does, VmError if it takes too long."""
        program = self.start(instance, argv)
        with program.socket as ours:
            ours.settimeout(seconds)
            output = bytearray()
            try:
                ours.sendall(stdin)
                ours.shutdown(socket.SHUT_WR)
                while block := ours.recv(_BLOCK_BYTES):
                    output += block
            except OSError as error:
                message = f"{argv[0]} in {instance} did not end within {seconds:g} s: {error}"
                raise VmError(message) from error
        try:
            code = program.exit_code(seconds)
        except NotFound as error:
            message = f"the engine forgot how {argv[0]} in {instance} ended"
            raise VmError(message) from error
        return Result(code, bytes(output), bytes(program.errors))

    def close(self) -> None:
        """Let the thread end with the last of its streams; those that are open go on."""
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(self._end(), self._loop)
                self._loop = None

    async def _end(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
        asyncio.get_running_loop().stop()

    def _run(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=[self._loop], name="engine-streams", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), self._loop)
        future.result(seconds + _CLOSE_SECONDS)

    async def _begin(self, program: Program, theirs: socket.socket, operation: str, secrets: dict[str, str]) -> None:
        # The program starts once its three streams are open. If it ends before the fourth, Incus may crash on that one.
        control = await self._open(f"{operation}/websocket?secret={secrets[_CONTROL]}")
        opened = await asyncio.gather(
            *(self._open(f"{operation}/websocket?secret={secrets[name]}") for name in _STREAMS)
        )
        streams = {_CONTROL: control, **dict(zip(_STREAMS, opened, strict=True))}
        task = asyncio.create_task(_carry(program, theirs, streams))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, path: str) -> ClientConnection:
        options: dict[str, Any] = {
            "compression": None, "max_size": None, "close_timeout": _CLOSE_SECONDS, "ping_interval": None,
        }  # fmt: skip
        if self.engine.tls is None:
            return await unix_connect(str(self.engine.access.socket), f"ws://engine{path}", **options)
        address = self.engine.address.replace("https", "wss", 1).rstrip("/")
        return await connect(f"{address}{path}", ssl=self.engine.tls, proxy=None, **options)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _carry(program: Program, theirs: socket.socket, streams: dict[str, ClientConnection]) -> None:
    """Copy until the program has closed its output, or the caller has hung up."""
    loop = asyncio.get_running_loop()

    async def up() -> None:
        with suppress(ConnectionClosed, OSError):
            while block := await loop.sock_recv(theirs, _BLOCK_BYTES):
                await streams["0"].send(block)
            await streams["0"].send("")

    async def down() -> None:
        with suppress(ConnectionClosed, OSError):
            async for frame in streams["1"]:
                if frame in _END:
                    break
                await loop.sock_sendall(theirs, frame if isinstance(frame, bytes) else frame.encode())

    async def errors() -> None:
        with suppress(ConnectionClosed):
            async for frame in streams["2"]:
                if frame in _END:
                    break
                program.errors += (frame if isinstance(frame, bytes) else frame.encode())[:_ERROR_BYTES]
                del program.errors[:-_ERROR_BYTES]

    sending, receiving, reading = (asyncio.create_task(work) for work in (up(), down(), errors()))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        await receiving
        await asyncio.wait({reading}, timeout=_LAST_OUTPUT_SECONDS)
    finally:
        for task in (sending, receiving, reading):
            task.cancel()
        await asyncio.gather(sending, receiving, reading, return_exceptions=True)
        theirs.close()
        await asyncio.gather(*(stream.close() for stream in streams.values()), return_exceptions=True)
