"""The standard streams of programs in an instance, over TLS, alone and many at once."""

from __future__ import annotations

import hashlib
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from actors.vms.images import ImageStore
from actors.vms.incus import Engine, access_of
from actors.vms.incus.exec_streams import ExecStreams, Program, Result
from actors.vms.incus.launch import connect_sshd
from actors.vms.provider import VmError
from ci_daemon.config import load
from tests.fleet.engine import INCUS
from tests.fleet.fleet import Fleet
from tests.fleet.prepared_cluster import prepare, provider_of
from tests.waiting import until

_INSTANCE = "ci-vm-parked"
_SECONDS = 60.0
_MB = 1 << 20
_FEW_MB = 16


@pytest.fixture(scope="module")
def streams(
    images_dir: Path, image_store: ImageStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ExecStreams]:
    """Programs in a VM that waits, on a member alone, in whose network the tests of this module run."""
    state = tmp_path_factory.mktemp("streams") / "state"
    with Fleet(INCUS) as fleet, fleet.switch.entered():
        prepare(fleet, state)
        settings = load(state, {}).incus
        with provider_of(state, image_store) as provider:
            provider.park("parked")
            with closing(Engine(access_of(state / "incus", settings), settings.project)) as engine:
                yield ExecStreams(engine)
            provider.destroy("parked")


def test_a_program_has_its_input_and_both_outputs(streams: ExecStreams) -> None:
    done = streams.complete(_INSTANCE, _sh("cat; echo wrong >&2"), b"input", _SECONDS)
    assert done == Result(b"input", b"wrong\n")


def test_a_program_that_has_ended_has_an_exit_code(streams: ExecStreams) -> None:
    with streams.start(_INSTANCE, _sh("exit 3")) as program:
        assert program.exit_code(_SECONDS) == 3


def test_the_engine_says_how_a_silent_program_ended(streams: ExecStreams) -> None:
    with streams.start(_INSTANCE, ["/nowhere/program"]) as program:
        assert program.complete(b"", _SECONDS) == Result(b"", b"")
        assert "ot found" in program.end_reason()
    with streams.start(_INSTANCE, _sh("exit 3")) as program:
        assert program.complete(b"", _SECONDS) == Result(b"", b"")
        assert program.end_reason() == "it ended with exit code 3"


def test_much_goes_both_ways_at_once(streams: ExecStreams) -> None:
    sent = [bytes([number]) * _MB for number in range(64)]
    with streams.start(_INSTANCE, ["/bin/cat"]) as program, ThreadPoolExecutor() as threads:
        program.settimeout(_SECONDS)
        sending = threads.submit(lambda: [program.send(each) for each in sent] and program.shutdown(socket.SHUT_WR))
        received = hashlib.sha256()
        while block := program.recv(_MB):
            received.update(block)
        sending.result()
    assert received.digest() == hashlib.sha256(b"".join(sent)).digest()


def test_errors_without_end_do_not_stop_a_program(streams: ExecStreams) -> None:
    """Nobody reads them while the program has more to say than the connection holds."""
    done = streams.complete(_INSTANCE, _sh("head -c 20M /dev/zero >&2; echo last >&2; echo out"), b"", _SECONDS)
    assert done.output == b"out\n"
    assert done.errors.endswith(b"\0last\n")


def test_a_program_need_not_read_its_input(streams: ExecStreams) -> None:
    done = streams.complete(_INSTANCE, _sh("echo out; echo wrong >&2"), bytes(64 * _MB), _SECONDS)
    assert done == Result(b"out\n", b"wrong\n")


def test_a_program_that_another_one_outlives_has_ended(streams: ExecStreams) -> None:
    done = streams.complete(_INSTANCE, _sh("echo out; echo wrong >&2; sleep 1000 >/dev/null &"), b"", _SECONDS)
    assert done == Result(b"out\n", b"wrong\n")


def test_a_program_that_goes_on_too_long_is_said_to(streams: ExecStreams) -> None:
    with pytest.raises(VmError, match=r"sleep in .* did not end within 0.5 s"):
        streams.complete(_INSTANCE, ["/bin/sleep", "1000"], b"", 0.5)


def test_a_reader_in_no_hurry_keeps_nothing_in_memory(streams: ExecStreams) -> None:
    with streams.start(_INSTANCE, _sh("head -c 200M /dev/zero")) as program:
        program.settimeout(_SECONDS)
        program.recv(_MB)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert sum(map(len, iter(lambda: program.recv(1 << 12), b""))) > 199 * _MB
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < _FEW_MB * 1024


def test_a_reader_waits_no_longer_than_its_time_out(streams: ExecStreams) -> None:
    with streams.start(_INSTANCE, ["/bin/cat"]) as program:
        program.settimeout(0.01)
        with pytest.raises(TimeoutError):
            program.recv(1)
        program.settimeout(_SECONDS)
        program.send(b"late")
        assert program.recv(_MB) == b"late"


def test_a_sender_that_nobody_reads_goes_on_after_its_time_out(streams: ExecStreams) -> None:
    data = bytes(range(256)) * (64 << 10)
    with streams.start(_INSTANCE, ["/usr/bin/sha256sum"]) as program:
        program.settimeout(0.001)
        sent = False
        while not sent:
            try:
                sent = program.send(data) == len(data)
            except TimeoutError:
                continue
        program.settimeout(_SECONDS)
        program.shutdown(socket.SHUT_WR)
        assert program.recv(64) == hashlib.sha256(data).hexdigest().encode()


@pytest.mark.parametrize("hang_up", [Program.close, lambda program: program.shutdown(socket.SHUT_RDWR)])
def test_who_waits_wakes_when_another_hangs_up(streams: ExecStreams, hang_up: Callable[[Program], None]) -> None:
    program = streams.start(_INSTANCE, ["/bin/cat"])
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(program.recv, 1)
        hang_up(program)
        assert reading.result(_SECONDS) == b""
    program.close()


def test_who_sends_wakes_when_another_hangs_up(streams: ExecStreams) -> None:
    program = streams.start(_INSTANCE, _sh("echo started; exec sleep 1000"))
    program.recv(64)

    def send_without_end() -> None:
        while True:
            program.send(bytes(_MB))

    with ThreadPoolExecutor() as threads:
        sending = threads.submit(send_without_end)
        program.shutdown(socket.SHUT_RDWR)
        program.close()
        with pytest.raises(BrokenPipeError):
            sending.result(_SECONDS)


def test_a_program_ends_with_its_caller(streams: ExecStreams) -> None:
    program = streams.start(_INSTANCE, _sh("echo $$; exec sleep 1000"))
    pid = program.recv(64).decode().strip()
    gone = _sh(f"test -d /proc/{pid} || echo gone")
    assert streams.complete(_INSTANCE, gone, b"", _SECONDS).output == b""
    program.close()
    until(lambda: streams.complete(_INSTANCE, gone, b"", _SECONDS).output, "the program to end", _SECONDS)


def test_fifty_programs_at_once(streams: ExecStreams) -> None:
    def run(number: int) -> bytes:
        return streams.complete(_INSTANCE, ["/bin/cat"], bytes([number]) * (256 << 10), _SECONDS).output

    with ThreadPoolExecutor(50) as threads:
        outputs = list(threads.map(run, range(50)))
    assert [set(output) for output in outputs] == [{number} for number in range(50)]
    assert {len(output) for output in outputs} == {256 << 10}


def test_an_sshd_ends_with_its_connection(streams: ExecStreams) -> None:
    """So does the program that waits for it."""
    before = _processes(streams)
    with connect_sshd(streams, _INSTANCE) as program:
        program.settimeout(_SECONDS)
        assert program.recv(_MB).startswith(b"SSH-")
        assert {"sshd", "python3"} <= set((_processes(streams) - before).elements())
    until(lambda: _processes(streams) == before, "sshd and its program to end", _SECONDS)


def test_a_connection_ends_with_its_sshd(streams: ExecStreams) -> None:
    with connect_sshd(streams, _INSTANCE) as program:
        program.settimeout(_SECONDS)
        assert program.recv(_MB).startswith(b"SSH-")
        streams.complete(_INSTANCE, _sh("kill -9 $(grep -lx sshd /proc/[0-9]*/comm | cut -d/ -f3)"), b"", _SECONDS)
        assert program.recv(_MB) == b""
        assert program.exit_code(_SECONDS) == 0


def test_many_connections_that_say_nothing(streams: ExecStreams) -> None:
    """None waits for another, and the VM keeps nothing of them."""
    before, held = _processes(streams), _held_by_init(streams)
    assert held > 0
    with ExitStack() as opened:

        def greeting(_: int) -> bytes:
            program = opened.enter_context(connect_sshd(streams, _INSTANCE))
            program.settimeout(_SECONDS)
            return program.recv(4)

        with ThreadPoolExecutor(30) as threads:
            assert set(threads.map(greeting, range(30))) == {b"SSH-"}
    until(lambda: _processes(streams) == before, "all sshds and programs to end", _SECONDS)
    assert _held_by_init(streams) == held


def _processes(streams: ExecStreams) -> Counter[str]:
    """Return the names of all processes in the instance, but those of this question."""
    names = streams.complete(_INSTANCE, _sh("cat /proc/[0-9]*/comm"), b"", _SECONDS).output.decode()
    return Counter(names.split()) - Counter(["sh", "cat"])


def _held_by_init(streams: ExecStreams) -> int:
    """Return the number of descriptors of the VM's PID 1, the first process of that name."""
    script = "cd /proc/$(grep -lx init /proc/[0-9]*/comm | cut -d/ -f3 | sort -n | head -n 1)/fd && ls"
    return len(streams.complete(_INSTANCE, _sh(script), b"", _SECONDS).output.split())


def _sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]
