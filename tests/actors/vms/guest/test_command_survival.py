"""Commands that outlive connections and processes, and lost ones."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from actors.vms import (
    CommandLost,
    CommandSpec,
    Connection,
    ConnectionLost,
    Exited,
    follow,
    start,
    terminate,
)
from actors.vms.guest.command import parse_result
from tests.actors.vms.commands import TIMEOUT, ended, left_running, run_in_job
from tests.actors.vms.conftest import Vm
from tests.waiting import until


@contextmanager
def later(seconds: float, action: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class TestSurviving:
    def test_a_dropped_connection_is_taken_up_where_it_was(self, vm: Vm, connection: Connection):
        start(connection, CommandSpec("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done; exit 3"))
        following = follow(connection)
        got = b""
        with later(0.35, connection.close), suppress(ConnectionLost):
            for chunk in following:
                got += chunk
        assert following.exited is None
        assert len(got) == following.offset < 16
        with vm.connect() as another:
            following = follow(another, following.offset)
            assert got + b"".join(following) == b"1\n2\n3\n4\n5\n6\n7\n8\n"
            assert following.exited == Exited(3, 16, truncated=False)

    def test_a_killed_sshd_leaves_the_command_alone(self, vm: Vm, connection: Connection):
        start(connection, CommandSpec("sleep 0.3; echo survived"))
        with pytest.raises(ConnectionLost):
            connection.run("kill -KILL $PPID; sleep 10", timeout=TIMEOUT)
        with vm.connect() as another:
            assert b"".join(follow(another)) == b"survived\n"

    def test_a_command_outlives_the_process_that_started_it(self, vm: Vm, tmp_path: Path):
        endpoint = vm.endpoint()
        keys = {name: value for name, value in asdict_of(endpoint).items() if name != "socket"}
        program = (
            "import os, signal, socket, sys\n"
            "from actors.vms import CommandSpec, Connection, SshEndpoint, start\n"
            "from storage import SystemClock\n"
            f"endpoint = SshEndpoint(socket.socket(fileno={endpoint.socket.fileno()}), **{keys!r})\n"
            "start(Connection(endpoint, SystemClock()), CommandSpec('sleep 0.5; echo alone; exit 8'))\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], pass_fds=[endpoint.socket.fileno()], check=False)
        assert done.returncode == -9
        endpoint.socket.close()
        with vm.connect() as connection:
            assert b"".join(follow(connection)) == b"alone\n"
            assert ended(connection) == Exited(8, 6, truncated=False)

    def test_a_vm_ends_with_its_supervisor(self, vm: Vm, connection: Connection):
        """So nobody waits for a command that nobody watches."""
        start(connection, CommandSpec("echo hi; sleep 60"))
        chunks = iter(follow(connection))
        assert next(chunks) == b"hi\n"
        with vm.connect() as killer, suppress(ConnectionLost):
            killer.run("pkill -KILL -x supervisor", timeout=TIMEOUT)
        with pytest.raises(ConnectionLost):
            list(chunks)
        until(lambda: not vm.provider.alive(vm.id), "the VM's end")

    def test_a_killed_init_is_reported_and_leaves_nothing(self, connection: Connection):
        """A program that entered the job's namespaces may kill the PID 1 of the command."""
        start(connection, CommandSpec("echo up; exec sleep 600"))
        assert next(iter(follow(connection))) == b"up\n"
        run_in_job(connection, "pkill -KILL -x init")
        assert ended(connection).exit_code == 128 + 9
        until(lambda: left_running(connection) == [], "the end of the command's processes", 20.0)
        terminate(connection)

    def test_a_command_whose_init_is_stopped_ends_all_the_same(self, connection: Connection):
        start(connection, CommandSpec("echo up; sleep 600 & until [ -e /run/go ]; do sleep 0.01; done; exit 3"))
        assert next(iter(follow(connection))) == b"up\n"
        run_in_job(connection, "pkill -STOP -x init; touch /run/go")
        assert ended(connection).exit_code == 3
        assert left_running(connection) == []

    @pytest.mark.parametrize(
        "lines",
        [
            "",
            *(f"{line}\noutput 0 0" for line in ("exit 99999999999999999999", "exit 256", "exit -5", "exit 0 0")),
            "exit\noutput 0 0",
            "exit 0\noutput 0",
            *(f"exit 0\noutput 0 0\n{line}\nnow 1" for line in ("ended x", "ended", "ended 1 2", "ended nan")),
            "exit 0\noutput 0 0\nended inf\nnow 1",
        ],
    )
    def test_an_impossible_result_is_not_accepted(self, lines: str):
        with pytest.raises(CommandLost):
            parse_result(f"started 1\n{lines}\n".encode())


def asdict_of(endpoint: object) -> dict[str, object]:
    return {name: getattr(endpoint, name) for name in ("socket", "private_key", "host_key", "user")}
