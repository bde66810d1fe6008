"""The SSH servers of all simulated VMs, in one process: `python -m benchmarks.scale.guests FOLDER`.

It reads orders from its input. ``print BYTES SECONDS`` lets each command print that much that often; ``end`` ends all
commands, and those that start later at once.
"""

from __future__ import annotations

import asyncio
import marshal
import random
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

SOCKET = "guests.socket"
HOST_KEY = "host_key"
_WIDTH = 100
_BACKLOG = 4096


@dataclass
class _Orders:
    """The orders to all commands."""

    output: bytes = b""
    seconds: float = 3600.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, order: str) -> None:
        """Take one order, and wake all commands."""
        match order.split():
            case ["print", size, seconds]:
                self.output = _lines(int(size))
                self.seconds = float(seconds)
            case _:
                self.ended.set()
        self.changed.set()
        self.changed = asyncio.Event()


class _Guest(asyncssh.SSHServer):
    """The SSH server of a VM, for one connection."""

    def __init__(self, orders: _Orders) -> None:
        self._orders = orders

    def begin_auth(self, username: str) -> bool:
        """Admit everybody: the client signs nevertheless."""
        return username != "root"

    def unix_connection_requested(self, dest_path: str) -> Any:  # noqa: ANN401 - one of many types
        """Speak as the supervisor of a job does."""
        return self._converse

    async def _converse(self, reader: Any, writer: Any) -> None:  # noqa: ANN401 - asyncssh comes without types of these
        word, number = (await reader.readline()).split()
        if word == b"start":
            marshal.loads(await reader.readexactly(int(number)))
            writer.write(b"started\n")
            await self._run(writer)
        else:
            writer.write(b"none\n")
        writer.close()

    async def _run(self, writer: Any) -> None:  # noqa: ANN401 - see above
        """Run a command: it prints until it is ended."""
        orders, printed = self._orders, 0
        while not orders.ended.is_set():
            await _first(orders.changed, orders.seconds * random.uniform(0.9, 1.1))
            if orders.output:
                writer.write(b"output %d\n" % len(orders.output) + orders.output)
                printed += len(orders.output)
                await writer.drain()
        result = b"exit 0\noutput %d 0\n" % printed
        writer.write(b"result %d\n" % len(result) + result)


async def _first(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _lines(size: int) -> bytes:
    line = b"x" * (_WIDTH - 1) + b"\n"
    return (line * (size // _WIDTH + 1))[-size:] if size else b""


async def _serve(folder: Path) -> None:
    """Serve until the input ends."""
    orders = _Orders()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / SOCKET))
    async with asyncssh.listen(
        sock=listener,
        server_factory=lambda: _Guest(orders),
        server_host_keys=[str(folder / HOST_KEY)],
        backlog=_BACKLOG,
    ):
        print("ready", flush=True)
        while line := await reader.readline():
            orders.take(line.decode())


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
