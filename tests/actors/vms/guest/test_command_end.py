"""Ending a command: by a call, and by its time-out."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from actors.vms import CommandSpec, Connection, Exited, VmError, follow, start, terminate
from actors.vms.guest.command import parse_result
from tests.actors.vms.commands import ended, left_running, run_in_job
from tests.actors.vms.conftest import Vm
from tests.sleeper import Sleeper


class TestTerminating:
    def test_a_fork_bomb_is_ended(self, connection: Connection):
        bomb = "trap '' TERM; bomb() { bomb | bomb & }; echo up; bomb 2>/dev/null; while :; do sleep 1; done"
        start(connection, CommandSpec(bomb, processes=300))
        assert next(iter(follow(connection))) == b"up\n"
        run_in_job(connection, "while [ $(ls -d /proc/[0-9]* | wc -l) -lt 200 ]; do sleep 0.05; done")
        terminate(connection, grace=0.3)
        assert ended(connection).exit_code == 137
        assert left_running(connection) == []

    def test_a_vm_ends_a_command_even_if_the_connection_ends(self, vm: Vm, connection: Connection):
        sleeper = Sleeper()
        start(connection, CommandSpec(f"trap 'echo TERM' TERM; (trap '' TERM; {sleeper.command}) & wait; wait"))
        sleeper.wait_for(runs=True)
        with vm.connect() as asking:

            def ask() -> None:
                with suppress(VmError):
                    terminate(asking, grace=1.0)

            asked = threading.Thread(target=ask)
            asked.start()
            assert next(iter(follow(connection))) == b"TERM\n"
        asked.join()
        connection.close()
        assert sleeper.runs
        sleeper.wait_for(runs=False)
        with vm.connect() as another:
            assert (ended(another).exit_code, ended(another).timed_out) == (137, False)


class TestTimeOut:
    def test_a_vm_ends_its_command_at_its_timeout_unconnected(self, vm: Vm, connection: Connection):
        sleeper = Sleeper()
        began = time.monotonic()
        start(connection, CommandSpec(sleeper.command, seconds=2.0))
        connection.close()
        sleeper.wait_for(runs=True)
        sleeper.wait_for(runs=False)
        assert time.monotonic() - began > 1.9
        with vm.connect() as another:
            exited = ended(another)
            again = ended(another)
        assert exited == Exited(143, 0, truncated=False, timed_out=True)
        assert exited.seconds_ago is not None
        assert again.seconds_ago is not None
        assert 0 <= exited.seconds_ago <= again.seconds_ago < time.monotonic() - began - 1.9

    def test_a_command_that_ignores_its_time_out_is_killed(self, connection: Connection):
        began = time.monotonic()
        start(connection, CommandSpec("trap '' TERM; while :; do sleep 0.1; done", seconds=0.5, grace=0.5))
        assert ended(connection) == Exited(137, 0, truncated=False, timed_out=True)
        assert time.monotonic() - began > 0.9
        assert left_running(connection) == []

    def test_without_a_grace_a_command_is_killed_at_once(self, connection: Connection):
        start(connection, CommandSpec("trap '' TERM; while :; do sleep 0.1; done", seconds=0.3, grace=0.0))
        assert ended(connection) == Exited(137, 0, truncated=False, timed_out=True)

    def test_a_command_without_time_left_is_ended_as_it_starts(self, connection: Connection):
        start(connection, CommandSpec("sleep 600", seconds=-3.0, grace=0.0))
        assert ended(connection).timed_out

    def test_a_command_may_use_its_grace_to_clean_up(self, connection: Connection):
        tidy = "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done"
        start(connection, CommandSpec(tidy, seconds=0.5))
        assert b"".join(follow(connection)).endswith(b"tidied\n")
        assert (ended(connection).exit_code, ended(connection).timed_out) == (0, True)

    def test_a_command_that_ends_in_time_is_not_noted(self, connection: Connection):
        start(connection, CommandSpec("sleep 0.2; exit 3", seconds=30))
        assert ended(connection) == Exited(3, 0, truncated=False, timed_out=False)

    def test_two_ends_of_a_command_send_one_term(self, connection: Connection):
        count = "trap 'echo TERM' TERM; echo up; while :; do sleep 0.05; done"
        start(connection, CommandSpec(count, seconds=0.3, grace=1.0))
        chunks = iter(follow(connection))
        assert next(chunks) == b"up\n"
        shown = next(chunks)
        terminate(connection, grace=1.0)
        assert (bytes(shown) + b"".join(chunks)).count(b"TERM\n") == 1
        assert ended(connection).timed_out

    def test_an_older_shim_does_not_tell_the_end_time(self):
        exited = parse_result(b"started\nexit 3\noutput 5 0\nnow 17.25\n")
        assert exited == Exited(3, 5, truncated=False, timed_out=False)
        assert exited.seconds_ago is None
