"""A VM's one command: how it starts, ends and writes, and what it survives."""

from __future__ import annotations

import marshal
import os
import random
import threading

import pytest

from actors.vms import (
    CommandSpec,
    CommandState,
    Connection,
    Exited,
    follow,
    inspect,
    start,
    terminate,
)
from actors.vms.launcher.command import Output
from tests.actors.vms.commands import TIMEOUT, ended, run_in_job
from tests.actors.vms.conftest import Vm

ARGUMENTS = "cat /proc/[0-9]*/cmdline"


def output_of(connection: Connection, command: str, **settings: object) -> bytes:
    """Run a command to its end and return all of its output."""
    start(connection, CommandSpec(command, **settings))  # type: ignore[arg-type] # the caller's fields
    return b"".join(follow(connection))


class TestStarting:
    @pytest.mark.parametrize(
        ("command", "output", "code"),
        [
            ("false | cat\necho done", b"", 1),
            ("if false; then echo no; fi\nfalse || echo so", b"so\n", 0),
            (f"# {'x' * 40_000}\necho begun\nfalse\necho done", b"begun\n", 1),
        ],
        ids=["pipe", "conditions", "long"],
    )
    def test_a_strict_shell_ends_where_bash_does(self, connection: Connection, command: str, output: bytes, code: int):
        assert output_of(connection, command, strict=True) == output
        assert ended(connection).exit_code == code

    def test_what_the_shell_keeps_to_itself_harms_nothing(self, connection: Connection):
        env = {"UID": "7", "OPTIND": "x", "shell": "/none", "IFS": "/", "LC_ALL": "none", "OLDPWD": "/tmp", "LAST": "1"}
        shown = output_of(connection, "echo $UID $shell $LAST $OLDPWD", env=env)
        assert shown.decode().splitlines()[-1] == "7 /none 1 /tmp"

    def test_no_program_has_the_environment_among_its_arguments(self, connection: Connection):
        start(connection, CommandSpec("echo up; exec sleep 60", env={"TOKEN": "hunter2", "PATH": "/usr/bin"}))
        assert next(iter(follow(connection))) == b"up\n"
        for run in (connection.run(ARGUMENTS, timeout=TIMEOUT), run_in_job(connection, ARGUMENTS)):
            assert b"sleep" in run.stdout
            assert b"hunter2" not in run.stdout

    def test_two_that_start_at_once_start_one_command(self, vm: Vm, connection: Connection):
        with vm.connect() as another:
            threads = [
                threading.Thread(
                    target=start, args=(each, CommandSpec("echo once >>/tmp/runs; sleep 0.1; cat /tmp/runs"))
                )
                for each in (connection, another)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert b"".join(follow(connection)) == b"once\n"

    def test_how_far_a_command_is_can_be_asked(self, vm: Vm, connection: Connection):
        assert inspect(connection) is CommandState.NOT_STARTED
        start(connection, CommandSpec("sleep 60"))
        assert inspect(connection) is CommandState.RUNNING
        terminate(connection)
        assert inspect(connection) is CommandState.ENDED

    def test_what_cannot_be_executed_says_why(self, connection: Connection):
        output = output_of(connection, "true", cwd="/nowhere")
        assert output == b"the command cannot be started: /nowhere: No such file or directory\n"
        assert ended(connection) == Exited(127, len(output), truncated=False)

    @pytest.mark.parametrize("kept", [0, 10, -20])
    def test_a_truncated_start_runs_nothing(self, connection: Connection, kept: int):
        whole = marshal.dumps({"arguments": ["-c", "touch /tmp/ran"], "env": {"X": "y" * 100}, "cwd": "/"})
        with connection.open_socket("/run/ci-daemon/supervisor", timeout=TIMEOUT) as supervisor:
            supervisor.send(f"start {len(whole)}\n".encode() + whole[:kept])
        assert inspect(connection) is CommandState.NOT_STARTED
        assert output_of(connection, "ls /tmp") == b""

    @pytest.mark.parametrize(
        "wrong",
        [{"command": "a\0b"}, {"env": {"": "1"}}, {"env": {"a=b": "1"}}, {"env": {"a;b": "1"}}, {"env": {"a": "\0"}}],
    )
    def test_what_no_program_can_be_given_is_refused(self, wrong: dict[str, object]):
        with pytest.raises(ValueError, match=r"must not contain NUL|must consist of letters"):
            CommandSpec(**{"command": "true", **wrong})  # type: ignore[arg-type] # wrong on purpose


class TestEnding:
    def test_the_oom_killer_takes_a_command_before_all_else(self, connection: Connection):
        own = output_of(connection, "cat /proc/self/oom_score_adj")
        others = connection.run("cat /proc/[0-9]*/oom_score_adj", timeout=TIMEOUT).stdout.split()
        assert int(own) > max(map(int, others))


class TestOutput:
    def test_output_comes_while_the_command_runs(self, connection: Connection):
        start(connection, CommandSpec("echo up; until [ -e /tmp/go ]; do sleep 0.01; done; echo over"))
        chunks = iter(follow(connection))
        assert next(chunks) == b"up\n"
        run_in_job(connection, "touch /tmp/go")
        assert list(chunks) == [b"over\n"]

    def test_following_from_any_offset_yields_each_byte_once(self, connection: Connection):
        command = (
            "seq 20000; sleep 0.1; head -c 300000 /dev/urandom | tee /tmp/random; sleep 0.01; seq 90000; printf end"
        )
        whole = output_of(connection, command)
        assert whole.startswith(b"1\n2\n")
        assert whole.endswith(b"90000\nend")
        assert run_in_job(connection, "cat /tmp/random").stdout in whole
        for offset in (0, 1, 100_000, len(whole) - 1, len(whole), *random.sample(range(len(whole)), 5)):
            again = follow(connection, offset)
            assert b"".join(again) == whole[offset:]
            assert again.offset == len(whole)
            assert again.exited == Exited(0, len(whole), truncated=False)

    def test_output_past_the_limit_is_dropped_without_an_error(self, connection: Connection):
        """The command goes on."""
        output = output_of(connection, "yes | head -c 30000000; echo >&2 done; exit 6", output_limit=100_000)
        assert output == b"y\n" * (len(output) // 2)
        assert len(output) == 100_000
        assert ended(connection) == Exited(6, len(output), truncated=True)
        spool = connection.run("du --bytes --total /run/ci-daemon | tail -n 1", timeout=TIMEOUT).stdout.split()[0]
        assert int(spool) < 200_000

    def test_output_of_just_the_limit_is_all_of_it(self, connection: Connection):
        assert len(output_of(connection, "head -c 1024 /dev/zero", output_limit=1024)) == 1024
        assert ended(connection) == Exited(0, 1024, truncated=False)

    def test_on_a_full_disk_of_the_host_output_stays_in_its_pipe(self):
        read, write = os.pipe()
        output = Output(os.open("/dev/full", os.O_RDWR))
        output.keep(100, 0)
        os.write(write, b"kept later")
        with pytest.raises(OSError, match=r"No space left|Invalid argument"):
            output.move(read)
        kept = os.memfd_create("kept")
        os.dup2(kept, output.file)
        assert (output.move(read), output.size) == (10, 10)
        assert os.pread(kept, 100, 0) == b"kept later"
        for descriptor in (read, write, output.file, kept):
            os.close(descriptor)

    def test_a_job_that_fills_its_disk_in_memory_loses_no_output(self, connection: Connection):
        fill = "mount -o remount,size=1m tmpfs /run; cat /dev/zero >/run/full; head -c 5000000 /dev/zero; exit 9"
        output = output_of(connection, fill)
        assert output.endswith(bytes(5_000_000))
        assert ended(connection) == Exited(9, len(output), truncated=False)

    def test_removing_and_truncating_all_of_run_harms_nothing(self, connection: Connection):
        wreck = "echo before; rm -rf /run/* /run/ci-daemon; echo after; exit 2"
        assert output_of(connection, wreck) == b"before\nafter\n"
        assert ended(connection).exit_code == 2

    def test_a_command_sees_its_own_processes_alone(self, connection: Connection):
        shown = output_of(connection, "ls -A /run/ci-daemon; ps -e -o pid=,comm=; true").decode().splitlines()
        assert shown[0].endswith("No such file or directory")
        assert [line.split()[1] for line in shown[1:]] == ["init", "bash", "ps"]
