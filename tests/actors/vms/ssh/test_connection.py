from __future__ import annotations

import hashlib
import io
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from paramiko.common import cMSG_CHANNEL_EOF

from actors.vms import (
    CommandTimeout,
    Connection,
    ConnectionLost,
    HostKeyMismatch,
    OutputTooLong,
    SshEndpoint,
    VmError,
)
from actors.vms.host.vm_folder import KeyPair
from storage import SystemClock
from tests.actors.vms.commands import run_in_job
from tests.actors.vms.conftest import Vm
from tests.waiting import until

TIMEOUT = 60.0
MIB = 1 << 20


def test_a_command_gives_its_output_its_errors_and_its_exit_code(connection: Connection):
    done = connection.run("echo out; echo err >&2; exit 7", timeout=TIMEOUT)
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_scripts_are_read_by_sh_as_they_are_written(connection: Connection):
    done = connection.run(
        "set -- 'it'\"'\"'s' \"a  b\" '\\'; printf '%s|' \"$@\"; readlink /proc/$$/exe", timeout=TIMEOUT
    )
    assert done.stdout == b"it's|a  b|\\|/usr/bin/dash\n"


def test_files_that_a_job_may_write_have_no_effect(connection: Connection):
    noise = "echo noise; sleep 30; exit 9"
    files = "/root/.bashrc /root/.profile /root/.ssh/rc /root/.ssh/environment /etc/profile /etc/environment"
    made = run_in_job(connection, f"mkdir -p /root/.ssh; for file in {files}; do echo '{noise}' >$file; done")
    assert made.exit_code == 0
    assert connection.run("echo fine", timeout=TIMEOUT).stdout == b"fine\n"
    assert run_in_job(connection, "echo fine").stdout == b"fine\n"


def test_stdin_arrives_and_ends(connection: Connection):
    chunks = [os.urandom(100_000) for _ in range(50)]
    done = connection.run("sha256sum", stdin=iter(chunks), timeout=TIMEOUT)
    assert done.stdout.split()[0].decode() == hashlib.sha256(b"".join(chunks)).hexdigest()


def test_large_input_and_output_do_not_block_each_other(connection: Connection):
    data = os.urandom(9 * MIB)
    done = connection.run("tee /dev/stderr", stdin=data, timeout=TIMEOUT)
    assert done.stdout == data
    assert done.stderr == data[-len(done.stderr) :]


def test_a_command_that_does_not_read_its_input_ends(connection: Connection):
    assert connection.run("exit 3", stdin=b"x" * (9 * MIB), timeout=TIMEOUT).exit_code == 3


def test_a_failing_input_raises_and_keeps_the_connection(connection: Connection):
    def broken() -> Iterator[bytes]:
        yield b"x"
        message = "the disk is gone"
        raise OSError(message)

    with pytest.raises(OSError, match="the disk is gone"):
        connection.run("cat", stdin=broken(), timeout=TIMEOUT)
    assert connection.run("true", timeout=TIMEOUT).exit_code == 0


def test_200_mb_are_read_whole(connection: Connection):
    with connection.stream("head -c 200000000 /dev/zero", timeout=None) as output:
        assert sum(map(len, output)) == 200_000_000
    assert output.exit_code == 0


def test_many_threads_share_a_connection(connection: Connection):
    def echo(number: int) -> bytes:
        return connection.run(f"sleep 0.02; echo {number}", timeout=TIMEOUT).stdout

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(echo, range(100))) == [f"{number}\n".encode() for number in range(100)]


def test_no_input_is_sent_to_a_command_whose_end_was_answered(connection: Connection, monkeypatch: pytest.MonkeyPatch):
    """It would end the connection. The command ends while the end of its input is on its way."""
    transport: Any = connection._transport  # noqa: SLF001 - what paramiko sends is seen nowhere else
    send = transport._send_user_message  # noqa: SLF001 - the same
    stream = connection.stream("until [ -e /tmp/go ]; do sleep 0.01; done", stdin=None, timeout=TIMEOUT)
    waiting = stream._channel  # noqa: SLF001 - the same
    end_of_input = paramiko.Message()
    end_of_input.add_byte(cMSG_CHANNEL_EOF)
    end_of_input.add_int(waiting.remote_chanid)

    def send_late(message: paramiko.Message) -> None:
        if message.asbytes() == end_of_input.asbytes():
            connection.run("touch /tmp/go", timeout=TIMEOUT)
            until(lambda: waiting.closed, "the command's end")
            connection.run("true", timeout=TIMEOUT)  # its answers come after that end was answered
        send(message)

    monkeypatch.setattr(transport, "_send_user_message", send_late)
    waiting.shutdown_write()
    assert connection.run("echo fine", timeout=TIMEOUT).stdout == b"fine\n"


def test_a_command_time_out_keeps_the_connection(connection: Connection):
    with pytest.raises(CommandTimeout, match=r"within 0\.3 s"):
        connection.run("sleep 1000", timeout=0.3)
    with pytest.raises(CommandTimeout):
        connection.run("sleep 1000", stdin=b"x" * (9 * MIB), timeout=0.3)
    assert connection.run("true", timeout=TIMEOUT).exit_code == 0


def test_a_vm_that_has_stopped_listening_cannot_hold_its_caller(vm: Vm):
    with vm.connect() as frozen, vm.connect() as other:
        session = frozen.run("echo $PPID", timeout=TIMEOUT).stdout.decode().strip()
        other.run(f"kill -STOP {session}", timeout=TIMEOUT)
        with pytest.raises(CommandTimeout):
            frozen.run("cat", stdin=b"x" * (9 * MIB), timeout=0.5)


def test_a_command_that_answers_without_end_is_cut_off(connection: Connection):
    with pytest.raises(OutputTooLong, match="more than 1000 bytes"):
        connection.run("yes", timeout=TIMEOUT, limit=1000)
    assert connection.run("true", timeout=TIMEOUT).exit_code == 0


def test_a_command_killed_from_outside_has_no_exit_code(connection: Connection):
    with pytest.raises(ConnectionLost, match="without an exit status"):
        connection.run("kill -KILL $$", timeout=TIMEOUT)
    assert connection.alive


def test_a_dropped_connection_is_reported_and_can_be_replaced(vm: Vm):
    with vm.connect() as connection:
        with pytest.raises(ConnectionLost):
            connection.run("kill -KILL $PPID; sleep 60", timeout=TIMEOUT)
        with pytest.raises(ConnectionLost):
            connection.run("true", timeout=TIMEOUT)
        assert not connection.alive
    with vm.connect() as connection:
        assert connection.run("true", timeout=TIMEOUT).exit_code == 0


def test_a_connection_that_breaks_among_much_output_is_lost(vm: Vm):
    endpoint = vm.endpoint()
    with Connection(endpoint, SystemClock()) as connection:
        output = iter(connection.stream("head -c 500000000 /dev/zero", timeout=TIMEOUT))
        next(output)
        endpoint.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLost):
            sum(map(len, output))


def test_a_vm_that_ends_ends_its_connections(vm: Vm):
    with vm.connect() as connection, connection.stream("echo up; sleep 60", timeout=None) as output:
        chunks = iter(output)
        assert next(chunks) == b"up\n"
        vm.provider.destroy(vm.id)
        with pytest.raises(ConnectionLost):
            next(chunks)


def test_closing_a_stream_ends_whoever_reads_it(connection: Connection):
    with connection.stream("echo up; sleep 60", timeout=None) as output:
        chunks = iter(output)
        assert next(chunks) == b"up\n"
        closing = threading.Timer(0.1, output.close)
        closing.start()
        assert list(chunks) == []
        closing.join()


def test_a_stranger_in_the_place_of_the_vm_is_refused(vm: Vm):
    endpoint = replace(vm.endpoint(), host_key=KeyPair.make().public)
    with pytest.raises(HostKeyMismatch, match="not the expected one"):
        Connection(endpoint, SystemClock())


def test_a_key_of_another_lease_is_refused(vm: Vm):
    endpoint = replace(vm.endpoint(), private_key=KeyPair.make().private)
    with pytest.raises(ConnectionLost, match="refuses the key"):
        Connection(endpoint, SystemClock())


NO_SSH = (
    b"",
    b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200,
    os.urandom(5000),
    b"SSH-2.0-odd\r\n\0\0\0\x0c\xff" + bytes(11),
    b"SSH-2.0-odd\r\n\0\0\0\x0c\4\1\xff\xff\xff\xff\0\0\0\1\xff\xff",
)


@pytest.mark.parametrize("data", NO_SSH)
def test_a_peer_that_speaks_no_ssh_is_given_up(data: bytes):
    ours, theirs = socket.socketpair()
    keys = KeyPair.make()
    with ours, theirs, ThreadPoolExecutor(1) as threads:
        theirs.sendall(data)
        connecting = threads.submit(
            Connection, SshEndpoint(ours, keys.private, keys.public), SystemClock(), timeout=0.5
        )
        with pytest.raises(ConnectionLost):
            connecting.result(timeout=12.0)  # paramiko's own time-outs are 15 s


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"SSH-2.0-", "is not an SSH server"),
        (b"hello\r\n", "is not an SSH server"),
        (b"SSH-2.0-x\r\n\xff\xff\xff\xf4", "sent a packet of 42949"),
    ],
)
def test_an_endless_greeting_is_cut_off(greeting: bytes, reason: str):
    ours, theirs = socket.socketpair()
    keys = KeyPair.make()

    def flood() -> None:
        with suppress(OSError):
            theirs.sendall(greeting)
            while True:
                theirs.sendall(bytes(MIB))

    flooding = threading.Thread(target=flood)
    flooding.start()
    with theirs, ours, pytest.raises(ConnectionLost, match=reason):
        Connection(SshEndpoint(ours, keys.private, keys.public), SystemClock())
    flooding.join(TIMEOUT)
    assert not flooding.is_alive()


class Mute(paramiko.ServerInterface):
    """A peer that accepts every login and never answers a request on a channel."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self.released.wait(TIMEOUT)


@contextmanager
def connected_to(
    answers: paramiko.ServerInterface,
    keys: KeyPair | None = None,
    kind: type[paramiko.PKey] = paramiko.ECDSAKey,
) -> Iterator[Connection]:
    """Yield a connection to a peer that answers so, whose keys are new unless they are given."""
    ours, theirs = socket.socketpair()
    keys = keys or KeyPair.make()
    with paramiko.Transport(theirs) as peer:
        peer.add_server_key(kind.from_private_key(io.StringIO(keys.private)))
        peer.start_server(threading.Event(), answers)
        with Connection(SshEndpoint(ours, keys.private, keys.public), SystemClock()) as connection:
            yield connection


def test_a_vm_of_an_earlier_release_is_reached_by_its_keys():
    """They were on curve 25519."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    with connected_to(Mute(), KeyPair(private, public), paramiko.Ed25519Key) as connection:
        assert connection.alive


def test_a_peer_that_lets_a_command_hang_is_given_up():
    mute = Mute()
    with connected_to(mute) as connection:
        with pytest.raises(CommandTimeout, match="did not start a command in time"):
            connection.run("true", timeout=0.3)
        mute.released.set()


class Flood(Mute):
    """A peer that ignores the window when it sends output."""

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        channel.out_window_size = 1 << 40
        self.answering = threading.Thread(target=_answer_without_end, args=(channel,))
        self.answering.start()
        return True


def _answer_without_end(channel: paramiko.Channel) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException):
        while True:
            channel.sendall(bytes(MIB))


def test_a_peer_that_sends_too_much_is_disconnected():
    flood = Flood()
    with connected_to(flood) as connection:
        output = connection.stream("true", timeout=TIMEOUT)
        flood.answering.join(TIMEOUT)
        assert not flood.answering.is_alive()
        assert not connection.alive
        with pytest.raises(ConnectionLost):
            assert sum(map(len, output)) <= 2 * MIB


def test_a_closed_socket_is_a_lost_connection():
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.close()
    keys = KeyPair.make()
    with pytest.raises(VmError):
        Connection(SshEndpoint(ours, keys.private, keys.public), SystemClock())


def test_over_tcp_small_packets_are_not_held_back(vm: Vm):
    endpoint = vm.endpoint()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        outer = socket.create_connection(listener.getsockname())
        inner, _ = listener.accept()
    pumps = [threading.Thread(target=_pump, args=pair) for pair in ((inner, endpoint.socket), (endpoint.socket, inner))]
    for pump in pumps:
        pump.start()
    with Connection(replace(endpoint, socket=outer), SystemClock()) as connection:
        assert connection.run("echo over tcp", timeout=TIMEOUT).stdout == b"over tcp\n"
        assert outer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    for pump in pumps:
        pump.join()
    inner.close()
    endpoint.socket.close()


def test_closing_twice_is_fine_and_leaves_no_thread(vm: Vm):
    before = set(threading.enumerate())
    connection = vm.connect()
    connection.run("cat", stdin=b"x" * MIB, timeout=TIMEOUT)
    connection.close()
    connection.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(TIMEOUT)
        assert not thread.is_alive(), thread.name


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            sink.sendall(chunk)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
