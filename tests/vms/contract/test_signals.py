"""Signals: how a command ends by them, and that nothing of a job outlives or resists its end."""

from __future__ import annotations

import pytest

from actors.vms import CommandSpec, Connection, Exited, follow, start, terminate
from tests.actors.vms.commands import ended, run_in_job
from tests.vms.contract.conftest import Boot

NAMED_LEFT = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^tail$' || true"
"""A script that prints how many of the processes that a command left behind still run."""


@pytest.mark.real
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("kill $$", 143),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -KILL -- -1; kill -KILL 1; kill -KILL 0; echo alive", 137),
    ],
)
def test_a_signal_is_exit_code_128_and_its_number(connection: Connection, command: str, code: int):
    start(connection, CommandSpec(f"exec 2>&-; {command}"))
    assert ended(connection) == Exited(code, 0, truncated=False)


@pytest.mark.real
def test_a_command_may_clean_up_in_its_grace(connection: Connection):
    start(connection, CommandSpec("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"))
    chunks = iter(follow(connection))
    assert next(chunks) == b"up\n"
    terminate(connection, grace=60.0)
    assert b"".join(chunks).endswith(b"bye\n")
    assert ended(connection).exit_code == 3


@pytest.mark.real
@pytest.mark.parametrize(
    "command",
    [
        "trap '' TERM; echo up; tail -f /dev/null",
        "trap '' TERM HUP; (setsid tail -f /dev/null &); echo up; tail -f /dev/null",
        "(until grep -q 'State:.T' /proc/$$/status; do :; done; echo up; exec tail -f /dev/null) & kill -STOP $$",
        "trap '' TERM; tail -f /dev/null & echo up; while :; do :; done",
    ],
    ids=["ignores TERM", "leaves its session", "is stopped", "is busy"],
)
def test_what_ignores_its_grace_is_killed_to_the_last(connection: Connection, command: str):
    start(connection, CommandSpec(command))
    assert next(iter(follow(connection))) == b"up\n"
    terminate(connection, grace=0.3)
    assert ended(connection).exit_code == 137
    assert run_in_job(connection, NAMED_LEFT).stdout == b"0\n"


@pytest.mark.real
def test_background_processes_die_with_their_command(connection: Connection):
    left = "nohup tail -f /dev/null & (setsid tail -f /dev/null >/dev/null 2>&1 &); trap '' TERM HUP; exec true"
    start(connection, CommandSpec(left))
    assert ended(connection).exit_code == 0
    assert run_in_job(connection, NAMED_LEFT).stdout == b"0\n"


@pytest.mark.real
def test_a_vm_survives_all_signals_of_its_root(boot: Boot):
    vm = boot()
    vm.run("for signal in 1 2 3 6 9 11 13 15 17 19 20 25; do kill -$signal 1; done; kill -KILL -- -1")
    assert vm.provider.alive(vm.id)
    assert vm.says("echo well") == "well"
