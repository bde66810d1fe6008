"""A websocket over TLS whose server splits messages into frames, and frames into records."""

from __future__ import annotations

import itertools
import random
import select
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pytest
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from actors.vms.incus.exec_streams import WebSocket
from tests.mail_server import certificate

_SECONDS = 30.0
_RECORD_BYTES = 1 << 14
"""The most of one TLS record."""

_PING = Frame(Opcode.PING, b"still there?")
_END = Frame(Opcode.TEXT, b"")
_MESSAGE = b"a message of some bytes"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trusts it."""
    server, trusted = certificate(tmp_path_factory.mktemp("tls"))
    return server, ssl.create_default_context(cafile=str(trusted))


class _Server:
    """A server that sends all its frames at once with the answer to the first connection, then ends it."""

    def __init__(self, context: ssl.SSLContext, frames: Iterable[Frame], record_bytes: int) -> None:
        self.received = b""
        """All that came after the client's request."""

        self._context = context
        self._frames = frames
        self._record_bytes = record_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()

    def serve(self) -> None:
        with self._listener, self._context.wrap_socket(self._listener.accept()[0], server_side=True) as client:
            client.settimeout(_SECONDS)
            sent = self._accepted(client) + b"".join(each.serialize(mask=False) for each in self._frames)
            for begin in range(0, len(sent), self._record_bytes):
                client.sendall(sent[begin : begin + self._record_bytes])
            client.settimeout(0)
            with suppress(ssl.SSLWantReadError):  # it says that it sends no more, as the engine does, and does not wait
                client.unwrap()
            client.settimeout(_SECONDS)
            while block := client.recv(1 << 16):
                self.received += block

    def _accepted(self, client: ssl.SSLSocket) -> bytes:
        protocol, asked = ServerProtocol(), []
        while not asked:
            protocol.receive_data(client.recv(1 << 16))
            asked = [event for event in protocol.events_received() if isinstance(event, Request)]
        protocol.send_response(protocol.accept(asked[0]))
        return b"".join(protocol.data_to_send())


@contextmanager
def _opened(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], frames: Iterable[Frame], record_bytes: int = _RECORD_BYTES
) -> Iterator[tuple[WebSocket, _Server]]:
    server = _Server(tls[0], frames, record_bytes)
    serving = threading.Thread(target=server.serve)
    serving.start()
    try:
        with tls[1].wrap_socket(socket.create_connection(server.address, _SECONDS), server_hostname="localhost") as own:
            stream = WebSocket(own, "/stream")
            yield stream, server
            stream.close()
    finally:
        serving.join(_SECONDS)


def _all_of(stream: WebSocket) -> bytes:
    received, poll = bytearray(), select.poll()
    poll.register(stream.descriptor, select.POLLIN)
    while (data := stream.receive()) != b"":
        if data is None:
            assert poll.poll(_SECONDS * 1000), "nothing comes any more"
        else:
            received += data
    return bytes(received)


@pytest.mark.parametrize("record_bytes", [1, 7, _RECORD_BYTES])
def test_a_message_is_whole_wherever_it_is_split(tls: tuple[ssl.SSLContext, ssl.SSLContext], record_bytes: int) -> None:
    """It comes in three frames, of which some are empty, with pings between that get no answer."""
    places = [(one, two) for two in range(len(_MESSAGE) + 1) for one in range(two + 1)]
    frames = [
        frame
        for one, two in places
        for frame in (
            Frame(Opcode.BINARY, _MESSAGE[:one], fin=False), _PING,
            Frame(Opcode.CONT, _MESSAGE[one:two], fin=False), _PING,
            Frame(Opcode.CONT, _MESSAGE[two:]), _PING,
        )
    ]  # fmt: skip
    with _opened(tls, [*frames, _END], record_bytes) as (stream, server):
        assert _all_of(stream) == _MESSAGE * len(places)
    assert server.received == b""


def test_a_long_stream_is_whole_in_frames_of_any_size(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    """A reader that takes some of it finds the rest, though nothing more comes on the connection."""
    chance = random.Random(0)
    data = chance.randbytes(3 << 20)
    ends = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(100))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    split = [Frame(Opcode.CONT, piece, fin=False) for piece in pieces[1:]]
    frames = [Frame(Opcode.BINARY, pieces[0], fin=False), *split, Frame(Opcode.CONT, b""), _END]
    with _opened(tls, frames) as (stream, _):
        assert _all_of(stream) == data


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([_END, Frame(Opcode.BINARY, b"later")], id="an empty message"),
        pytest.param([Frame(Opcode.CLOSE, Close(1000, "").serialize())], id="a close"),
        pytest.param([], id="the connection's end"),
    ],
)
@pytest.mark.parametrize("record_bytes", [1, _RECORD_BYTES])
def test_a_stream_ends_once(tls: tuple[ssl.SSLContext, ssl.SSLContext], ends: list[Frame], record_bytes: int) -> None:
    """Later messages are not of it, in the same record either."""
    with _opened(tls, [Frame(Opcode.BINARY, b"all"), *ends], record_bytes) as (stream, _):
        assert _all_of(stream) == b"all"
        assert stream.receive() == b""
