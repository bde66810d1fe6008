"""How fast one record is read over HTTP."""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from benchmarks.figures import Benchmark, by_turns
from benchmarks.service import serving
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.figures import Figure
    from benchmarks.place import Place

__all__ = ["READS"]

_ROUNDS = 7
_SECONDS = 1.0
_BUILD_SECONDS = 30.0
_BLOCK = 1 << 16
_PATIENCE = 5.0


def _measure(place: Place) -> Iterator[Figure]:
    with serving(place) as service:
        build = service.build(one("true"))
        service.finish(build, _BUILD_SECONDS)
        record = json.dumps(service.get(build)).encode()
        with _bare(record) as port:
            ours = _request(build, service.headers)
            bare = _request("/record", service.headers)
            for connections in (1, 8):
                sides = (
                    partial(_rate, service.connection.port, ours, connections),
                    partial(_rate, port, bare, connections),
                )
                yield by_turns(f"{connections} kept alive, more is better", "/s", _ROUNDS, *sides)


@contextmanager
def _bare(record: bytes) -> Iterator[int]:
    """Serve a record that costs nothing; give the port."""
    argv = [sys.executable, "-m", "benchmarks.bare"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        try:
            server.stdin.write(record)
            server.stdin.close()
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _request(path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _rate(port: int, request: bytes, connections: int) -> float:
    """Return how many answers a second come, when every connection asks again as soon as it is answered.

    All answers have the length of the first, so that a comparison is all the parsing there is.
    """
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        missing: dict[socket.socket, int] = {}
        for _ in range(connections):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            missing[connection] = _ask_once(connection, request)
            selector.register(connection, selectors.EVENT_READ, (connection, missing[connection]))
        for connection in missing:
            connection.sendall(request)
        answers = 0
        began = now = perf_counter()
        while now < began + _SECONDS:
            for key, _ in selector.select(_PATIENCE) or _nothing_came():
                connection, length = key.data
                missing[connection] -= len(connection.recv(_BLOCK))
                if not missing[connection]:
                    answers += 1
                    missing[connection] = length
                    connection.sendall(request)
            now = perf_counter()
        return answers / (now - began)


def _ask_once(connection: socket.socket, request: bytes) -> int:
    """Return how many bytes the answer has, head and body."""
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(_BLOCK)
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    length = int(fields[b"content-length"])
    while len(body) < length:
        body += connection.recv(_BLOCK)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(body.decode())
    return len(head) + 4 + length


def _nothing_came() -> NoReturn:
    raise RuntimeError(f"no answer in {_PATIENCE:g} s, or one of another length than the first")


READS = Benchmark(
    name="reads",
    title="Reads of one build record, with authentication",
    floor="a falcon resource that answers the same bytes, on waitress with as many threads, asked by the same client.",
    measure=_measure,
)
