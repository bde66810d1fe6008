from __future__ import annotations

import socket
import threading

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.vms.ssh.transport import BoundedSocket, limit_unread

PIECES = st.lists(st.binary(max_size=20), max_size=20)


def _channel(window: int) -> paramiko.Channel:
    channel = paramiko.Channel(1)
    channel.in_window_size = window
    limit_unread(channel)
    return channel


@given(PIECES, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_what_is_fed_is_read_in_any_sizes(pieces: list[bytes], sizes: list[int]):
    buffer = _channel(1000).in_buffer
    fed = read = b""
    for number, piece in enumerate(pieces):
        buffer.feed(piece)
        fed += piece
        assert len(buffer) == len(fed) - len(read)
        if buffer.read_ready():
            read += buffer.read(sizes[number % len(sizes)], timeout=0.0)
    assert read + buffer.empty() == fed
    assert not buffer.read_ready()


def test_more_than_the_window_is_refused():
    buffer = _channel(10).in_buffer
    buffer.feed(b"ten bytes.")
    with pytest.raises(paramiko.SSHException, match="more than was requested"):
        buffer.feed(b"x")
    assert buffer.read(4, timeout=0.0) == b"ten "
    buffer.feed(b"more")
    assert buffer.read(100, timeout=0.0) == b"bytes.more"


def test_the_event_is_set_while_there_is_data():
    buffer, event = _channel(10).in_buffer, threading.Event()
    buffer.set_event(event)
    assert not event.is_set()
    buffer.feed(b"abc")
    assert event.is_set()
    buffer.read(2, timeout=0.0)
    assert event.is_set()
    buffer.read(2, timeout=0.0)
    assert not event.is_set()


@given(PIECES, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_a_socket_gives_what_came_in_any_sizes(pieces: list[bytes], sizes: list[int]):
    near, far = socket.socketpair()
    with near, far:
        sent = b"SSH-2.0-x\r\n" + b"".join(pieces)
        far.sendall(sent)
        far.shutdown(socket.SHUT_WR)
        bounded, received, turn = BoundedSocket(near), b"", 0
        while chunk := bounded.recv(sizes[turn % len(sizes)]):
            assert len(chunk) <= sizes[turn % len(sizes)]
            received += chunk
            turn += 1
        assert received == sent


def test_a_peer_that_does_not_speak_ssh_is_refused():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"HTTP/1.1 400 Bad Request\r\n")
        with pytest.raises(paramiko.SSHException, match="not an SSH server"):
            BoundedSocket(near).recv(4)


def test_closing_wakes_who_waits_for_data():
    """Another handle of the socket is told, as a thread is that receives from it."""
    connected, peer = socket.socketpair()
    with peer, connected.dup() as waiting:
        waiting.setblocking(False)
        bounded = BoundedSocket(connected)
        bounded.close()
        assert waiting.recv(1) == b""
        bounded.close()
