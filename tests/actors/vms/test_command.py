from __future__ import annotations

import random
import shlex
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
    CommandState,
    Connection,
    ConnectionLost,
    Exited,
    VmError,
    follow,
    inspect,
    start,
    terminate,
)
from actors.vms import (
    command as command_module,
)
from tests.actors.vms.commands import TIMEOUT, ended, left_running
from tests.actors.vms.conftest import Vm

SHIM = "read -r pid </run/ci-daemon/command"


def output_of(connection: Connection, command: str, **settings: object) -> bytes:
    """Run a command to its end and return all of its output."""
    start(connection, CommandSpec(command, **settings))  # type: ignore[arg-type] # the caller's fields
    return b"".join(follow(connection))


@contextmanager
def later(seconds: float, action: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


class TestStarting:
    def test_a_command_runs_in_bash_with_only_its_environment(self, connection: Connection):
        env = {"PATH": "/bin:/usr/bin", "TEXT": "a 'b' \"c\"\n$d `e` \\", "_odd_Name1": "1", "UNICODE": "é ✓"}
        shown = output_of(connection, "env -0; echo $BASH_VERSION", env=env)
        variables = dict(line.split("=", 1) for line in shown.decode().split("\0")[:-1])
        assert {name: variables[name] for name in env} == env
        assert set(variables) - set(env) <= {"PWD", "SHLVL", "_"}
        assert shown.decode().split("\0")[-1].startswith("5.")

    def test_a_command_is_root_in_the_workspace_with_nothing_to_read(self, connection: Connection):
        shown = output_of(connection, "id -u; pwd; umask; cat; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l")
        assert shown.decode().split() == ["0", "/workspace", "0022", "/dev/null", "4"]

    def test_a_command_leads_a_session_and_a_process_group(self, connection: Connection):
        leader, group, session = output_of(connection, "ps -o pid=,pgid=,sid= $$").split()
        assert leader == group == session

    def test_a_command_inherits_no_ignored_signal(self, connection: Connection):
        masks = output_of(connection, "grep -E 'SigIgn|SigBlk' /proc/self/status").split()[1::2]
        librarys_own = 0b11 << 31  # signals 32 and 33 belong to the C library, and some programs ignore them for good
        assert [int(mask, 16) & ~librarys_own for mask in masks] == [0, 0]

    def test_without_bash_a_command_runs_in_sh(self, vm: Vm, connection: Connection):
        connection.run("sed -i '/^root:/s/bash/sh/' /etc/passwd; rm /bin/bash", timeout=TIMEOUT)
        with vm.connect() as another:
            assert output_of(another, "readlink /proc/$$/exe") == b"/usr/bin/dash\n"

    @pytest.mark.parametrize("length", [1, 30_000, 30_001, 250_000])
    def test_a_command_may_be_long(self, connection: Connection, length: int):
        command = f"echo {'é' * (length // 2)} | wc -c; echo $# $0; exit 5"
        output = output_of(connection, command)
        assert output.split()[0] == str(length // 2 * 2 + 1).encode()
        assert ended(connection) == Exited(5, len(output), truncated=False)

    def test_an_environment_may_be_large(self, connection: Connection):
        env = {"PATH": "/bin:/usr/bin", **{f"V{number}": "x" * 6_000 for number in range(10)}}
        assert output_of(connection, "echo $V0$V9 | wc -c", env=env) == b"12001\n"

    def test_what_the_shell_keeps_to_itself_harms_nothing(self, connection: Connection):
        env = {"UID": "7", "OPTIND": "x", "shell": "/none", "IFS": "/", "LC_ALL": "none", "OLDPWD": "/tmp", "LAST": "1"}
        shown = output_of(connection, "echo $UID $shell $LAST $OLDPWD", env=env)
        assert shown.decode().splitlines()[-1] == "7 /none 1 /tmp"

    def test_no_program_has_the_environment_among_its_arguments(self, connection: Connection):
        spy = 'echo "$@" >>/tmp/seen; exec /usr/bin/real "$@"'
        connection.run(
            f"cd /usr/bin; mv setsid real; printf '#!/bin/sh\\n%s' {shlex.quote(spy)} >setsid; chmod 755 setsid",
            timeout=TIMEOUT,
        )
        shown = output_of(connection, "echo $TOKEN; cat /tmp/seen", env={"TOKEN": "hunter2", "PATH": "/usr/bin"})
        assert shown.decode().splitlines() == ["hunter2", "/bin/bash -c echo $TOKEN; cat /tmp/seen"]

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
        connection.run(f"{SHIM}; kill -KILL $pid", timeout=TIMEOUT)
        assert inspect(connection) is CommandState.ENDED

    def test_what_cannot_be_started_says_why_and_may_be_tried_again(self, connection: Connection):
        with pytest.raises(VmError, match="can't cd to /nowhere"):
            start(connection, CommandSpec("true", cwd="/nowhere"))
        assert inspect(connection) is CommandState.NOT_STARTED
        assert output_of(connection, "echo fine") == b"fine\n"

    def test_a_truncated_start_runs_nothing(self, vm: Vm, connection: Connection):
        half = command_module.init_script(CommandSpec("touch /tmp/ran; echo $X", env={"X": "y" * 100}))[:-20]
        script = command_module.script("ending", "shim", limit=1000, allowed=100, grace=0)
        assert b"yntax error" in connection.run(script, stdin=half.encode(), timeout=TIMEOUT).stdout
        assert connection.run("[ -e /tmp/ran ]", timeout=TIMEOUT).exit_code == 1
        assert inspect(connection) is CommandState.NOT_STARTED

    @pytest.mark.parametrize(
        "wrong",
        [{"command": "a\0b"}, {"env": {"": "1"}}, {"env": {"a=b": "1"}}, {"env": {"a;b": "1"}}, {"env": {"a": "\0"}}],
    )
    def test_what_no_program_can_be_given_is_refused(self, wrong: dict[str, object]):
        with pytest.raises(ValueError, match=r"must not contain NUL|must consist of letters"):
            CommandSpec(**{"command": "true", **wrong})  # type: ignore[arg-type] # wrong on purpose


class TestEnding:
    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("exit 0", 0),
            ("exit 3", 3),
            ("exit 255", 255),
            ("nonsense-program", 127),
            ("kill -KILL $$", 137),
            ("kill $$", 143),
        ],
    )
    def test_exit_codes_are_those_of_a_shell(self, connection: Connection, command: str, code: int):
        start(connection, CommandSpec(command))
        assert ended(connection).exit_code == code

    def test_background_processes_die_with_the_command(self, connection: Connection):
        left = "nohup tail -f /dev/null & (setsid tail -f /dev/null >/dev/null 2>&1 &); trap '' TERM HUP; exec true"
        output_of(connection, left)
        assert left_running(connection) == []

    def test_a_command_that_kills_all_it_sees_kills_itself(self, connection: Connection):
        start(connection, CommandSpec("exec 2>&-; kill -KILL -- -1; kill -KILL 1; kill -KILL 0; echo alive"))
        assert ended(connection) == Exited(137, 0, truncated=False)

    def test_the_oom_killer_takes_a_command_before_its_shim(self, connection: Connection):
        own = output_of(connection, "cat /proc/self/oom_score_adj")
        shim = connection.run(f"{SHIM}; cat /proc/$pid/oom_score_adj", timeout=TIMEOUT).stdout
        assert int(own) > int(shim)


class TestOutput:
    def test_output_comes_while_the_command_runs(self, connection: Connection):
        start(connection, CommandSpec("echo up; until [ -e /tmp/go ]; do sleep 0.01; done; echo over"))
        chunks = iter(follow(connection))
        assert next(chunks) == b"up\n"
        connection.run("touch /tmp/go", timeout=TIMEOUT)
        assert list(chunks) == [b"over\n"]

    def test_output_and_errors_come_in_their_order(self, connection: Connection):
        assert output_of(connection, "for i in 1 2 3; do echo o$i; echo e$i >&2; done") == b"o1\ne1\no2\ne2\no3\ne3\n"

    def test_following_from_any_offset_yields_each_byte_once(self, connection: Connection):
        command = (
            "seq 20000; sleep 0.1; head -c 300000 /dev/urandom | tee /tmp/random; sleep 0.01; seq 90000; printf end"
        )
        whole = output_of(connection, command)
        assert whole.startswith(b"1\n2\n")
        assert whole.endswith(b"90000\nend")
        assert connection.run("cat /tmp/random", timeout=TIMEOUT).stdout in whole
        for offset in (0, 1, 100_000, len(whole) - 1, len(whole), *random.sample(range(len(whole)), 5)):
            again = follow(connection, offset)
            assert b"".join(again) == whole[offset:]
            assert again.offset == len(whole)
            assert again.exited == Exited(0, len(whole), truncated=False)

    def test_200_mb_arrive_complete(self, connection: Connection):
        start(connection, CommandSpec("head -c 200000000 /dev/zero", output_limit=1 << 30))
        assert sum(map(len, follow(connection))) == 200_000_000

    def test_output_past_the_limit_is_dropped_without_an_error(self, connection: Connection):
        """The command goes on."""
        output = output_of(connection, "yes | head -c 300000000; echo >&2 done; exit 6", output_limit=100_000)
        assert output == b"y\n" * (len(output) // 2)
        assert 100_000 <= len(output) < 100_512
        assert ended(connection) == Exited(6, len(output), truncated=True)
        spool = connection.run("du --bytes --total /run/ci-daemon | tail -n 1", timeout=TIMEOUT).stdout.split()[0]
        assert int(spool) < 200_000

    def test_output_of_just_the_limit_is_all_of_it(self, connection: Connection):
        assert len(output_of(connection, "head -c 1024 /dev/zero", output_limit=1024)) == 1024
        assert ended(connection) == Exited(0, 1024, truncated=False)

    def test_a_full_run_folder_costs_output_and_no_more(self, connection: Connection):
        connection.run("mount -o remount,size=1m tmpfs /run", timeout=TIMEOUT)
        output = output_of(connection, "head -c 5000000 /dev/zero; exit 9")
        assert len(output) < 1 << 20
        assert ended(connection) == Exited(9, len(output), truncated=True)

    def test_removing_and_truncating_all_of_run_harms_nothing(self, connection: Connection):
        wreck = "echo before; rm -rf /run/* /run/ci-daemon/*; ls -A /run/ci-daemon; echo after; exit 2"
        assert output_of(connection, wreck).splitlines()[-1] == b"after"
        assert ended(connection).exit_code == 2

    def test_a_command_that_removes_the_spool_harms_nothing(self, connection: Connection):
        start(connection, CommandSpec("echo before; sleep 0.3; echo after"))
        connection.run("rm /run/ci-daemon/output.* /run/ci-daemon/result.*", timeout=TIMEOUT)
        assert b"".join(follow(connection)) == b"before\nafter\n"

    def test_a_command_cannot_see_its_shim(self, connection: Connection):
        assert output_of(connection, "ls -A /run/ci-daemon; ps -e -o pid=").split()[0] == b"1"


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

    def test_a_killed_shim_is_reported_and_not_waited_for(self, vm: Vm, connection: Connection):
        start(connection, CommandSpec("echo hi; sleep 60"))
        with vm.connect() as killer:
            kill = later(0.3, lambda: killer.run(f"{SHIM}; kill -KILL $pid", timeout=TIMEOUT))
            with kill, pytest.raises(CommandLost):
                list(follow(connection))
        with pytest.raises(CommandLost):
            ended(connection)
        terminate(connection)

    def test_a_shims_file_that_names_another_process_is_reported(self, connection: Connection):
        start(connection, CommandSpec("umount /run/ci-daemon && echo 1 >/run/ci-daemon/command; exec sleep 60"))
        connection.run("until grep -qx 1 /run/ci-daemon/command; do sleep 0.01; done", timeout=TIMEOUT)
        with pytest.raises(CommandLost):
            ended(connection)

    @pytest.mark.parametrize("result", ["exit 99999999999999999999", "exit 256", "exit -5", "exit 0 0", "exit"])
    def test_an_impossible_exit_code_is_not_accepted(self, connection: Connection, result: str):
        forge = f"umount /run/ci-daemon && echo '\n{result}\noutput 0 0' | dd oflag=seek_bytes seek=300 conv=notrunc"
        start(connection, CommandSpec(f"echo; {forge} of=$(echo /run/ci-daemon/result.*) status=none"))
        with pytest.raises(CommandLost):
            ended(connection)


def asdict_of(endpoint: object) -> dict[str, object]:
    return {name: getattr(endpoint, name) for name in ("socket", "private_key", "host_key", "user")}
