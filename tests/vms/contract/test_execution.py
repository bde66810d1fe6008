"""Execution: what a job's command, and a script of the service, find in a VM and may give it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from actors.vms import CommandSpec, Connection, Exited, Told, follow, in_job, start, told, told_path
from tests.actors.vms.commands import TIMEOUT, ended, run_in_job

LIBRARYS_OWN = 0b11 << 31
"""Signals 32 and 33, which belong to the C library; some programs ignore them for good."""


def output_of(connection: Connection, command: str, **env: str) -> str:
    """Run a command to its end and return all of its output."""
    start(connection, CommandSpec(command, env=env))
    return b"".join(follow(connection)).decode()


@pytest.mark.real
def test_a_command_runs_in_bash_with_only_its_environment(connection: Connection):
    env = {"PATH": "/bin:/usr/bin", "TEXT": "a 'b' \"c\"\n$d `e` \\", "_odd_Name1": "1", "UNICODE": "é ✓"}
    *shown, version = output_of(connection, "env -0; echo $BASH_VERSION", **env).split("\0")
    variables = dict(line.split("=", 1) for line in shown)
    assert {name: variables[name] for name in env} == env
    assert set(variables) - set(env) <= {"PWD", "SHLVL", "_"}
    assert version.startswith("5.")


@pytest.mark.real
def test_a_command_is_root_in_the_workspace_by_itself(connection: Connection):
    """It leads a session and a process group, has nothing to read, and inherits no ignored signal."""
    look = "id -u; pwd; umask; cat; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; ps -o pid=,pgid=,sid= $$"
    shown = output_of(connection, f"{look}; grep -E 'SigIgn|SigBlk' /proc/self/status | cut -f 2").split()
    assert shown[:5] == ["0", "/workspace", "0022", "/dev/null", "4"]
    assert len(set(shown[5:8])) == 1
    assert [int(mask, 16) & ~LIBRARYS_OWN for mask in shown[8:]] == [0, 0]


@pytest.mark.real
def test_without_bash_a_command_runs_in_sh(connection: Connection):
    assert run_in_job(connection, "rm /bin/bash").exit_code == 0
    assert output_of(connection, "readlink /proc/$$/exe") == "/usr/bin/dash\n"


@pytest.mark.real
@pytest.mark.parametrize("length", [30_000, 30_001, 250_000])
def test_a_command_and_its_environment_may_be_long(connection: Connection, length: int):
    env = {"PATH": "/bin:/usr/bin", **{f"V{number}": "x" * 6_000 for number in range(10)}}
    output = output_of(connection, f"echo {'é' * (length // 2)} | wc -c; echo $V0$V9 | wc -c; echo $#; exit 5", **env)
    assert output.split() == [str(length // 2 * 2 + 1), "12001", "0"]
    assert ended(connection) == Exited(5, len(output), truncated=False)


@pytest.mark.real
def test_scripts_share_a_connection_and_keep_apart(connection: Connection):
    """Each has its own input, output, errors and exit code."""

    def run(number: int) -> tuple[int, bytes, bytes]:
        script = in_job(f"cat; echo error {number} >&2; exit {number}")
        done = connection.run(script, stdin=b"%d\n" % number * 1000, timeout=TIMEOUT)
        return done.exit_code, done.stdout, done.stderr

    with ThreadPoolExecutor(8) as pool:
        for number, done in enumerate(pool.map(run, range(8))):
            assert done == (number, b"%d\n" % number * 1000, b"error %d\n" % number)


@pytest.mark.real
@pytest.mark.essential
def test_what_a_command_tells_is_read_once_it_has_ended(connection: Connection):
    """Its files are there for every user of the job, and the end names those that have something in them."""
    path = told_path("output")
    run = f"stat -c '%a %s' {path}; chown 1000 .; setpriv --reuid 1000 --clear-groups sh -c 'printf 123456 >>{path}'"
    assert output_of(connection, run) == "666 0\n"
    assert ended(connection).told == ("output",)
    assert told(connection, "output", 4) == Told(b"1234", 6)
    assert told(connection, "output", 6) == Told(b"123456", 6)
