"""Output of commands: all of it, in order and as it comes, however much it is."""

from __future__ import annotations

import time

import pytest

from actors.vms import CommandSpec, CommandState, Connection, Exited, Provider, follow, in_job, inspect, start
from storage import SystemClock
from tests.actors.vms.commands import TIMEOUT, run_in_job
from tests.vms.contract.conftest import Boot

GB = 1 << 30


@pytest.mark.real
def test_a_gigabyte_of_output_arrives_complete(connection: Connection):
    """With the exit code after it."""
    start(connection, CommandSpec("head -c 1G /dev/zero; exit 6", output_limit=2 * GB))
    following = follow(connection)
    assert sum(map(len, following)) == GB
    assert following.exited == Exited(6, GB, truncated=False)


@pytest.mark.real
def test_a_gigabyte_past_the_limit_is_dropped(connection: Connection):
    """The command goes on."""
    start(connection, CommandSpec("head -c 1G /dev/zero; echo over >&2; exit 6", output_limit=100_000))
    following = follow(connection)
    assert sum(map(len, following)) < 101_000
    assert following.exited == Exited(6, 100_000, truncated=True)
    assert (following.left_out, following.offset) == (GB + 5 - 100_000, GB + 5)


@pytest.mark.real
def test_a_script_s_output_is_read_to_its_end(connection: Connection):
    """Also if it is far more than the window of the connection."""
    with connection.stream(in_job("head -c 32M /dev/zero; echo end"), timeout=TIMEOUT) as output:
        *_, last = chunks = list(output)
    assert sum(map(len, chunks)) == (32 << 20) + 4
    assert last.endswith(b"end\n")


@pytest.mark.real
@pytest.mark.essential
def test_output_and_errors_come_in_their_order_and_once(boot: Boot, provider: Provider):
    """From any byte, over any connection."""
    vm = boot()
    with vm.connect() as connection:
        start(connection, CommandSpec("for i in 1 2 3; do echo o$i; echo e$i >&2; done; seq 20000"))
        following = follow(connection)
        whole = b"".join(following)
    assert whole.startswith(b"o1\ne1\no2\ne2\no3\ne3\n1\n2\n")
    with Connection(provider.connect(vm.id), SystemClock(), timeout=TIMEOUT) as another:
        for offset in (1, 17, 70_000, len(whole) - 1, len(whole)):
            again = follow(another, offset)
            assert b"".join(again) == whole[offset:]
            assert again.exited == Exited(0, len(whole), truncated=False)


@pytest.mark.real
@pytest.mark.parametrize(
    "helper",
    [
        "exec > >(tee build.log) 2>&1",
        "exec > >(sed s/^/now:/) 2>&1",
        "exec 3>&1; coproc { while read -r line; do echo $line; done >&3; }; exec 3>&- >&${COPROC[1]} 2>&1",
    ],
    ids=["tee", "sed", "coproc"],
)
def test_helpers_pass_on_all_that_the_command_wrote(connection: Connection, helper: str):
    """The exit code is that of the command."""
    start(connection, CommandSpec(f"{helper}; seq 50; echo FINAL; exit 3"))
    following = follow(connection)
    assert b"".join(following).replace(b"now:", b"").split() == [*(b"%d" % each for each in range(1, 51)), b"FINAL"]
    assert following.exited is not None
    assert (following.exited.exit_code, following.exited.cut_off) == (3, ())


@pytest.mark.real
@pytest.mark.essential
def test_a_slow_helper_and_a_server_are_told_apart(connection: Connection):
    """The helper has its time, and the server, which writes nothing, is ended and named."""
    slow = "exec > >(while read -r line; do sleep 0.02; echo $line; done) 2>&1"
    start(connection, CommandSpec(f"tail -f /dev/null & {slow}; seq 50; echo FINAL; exit 3"))
    following = follow(connection)
    assert b"".join(following).split() == [*(b"%d" % each for each in range(1, 51)), b"FINAL"]
    assert following.exited is not None
    assert (following.exited.exit_code, following.exited.cut_off) == (3, ("tail",))


@pytest.mark.real
def test_a_file_that_a_helper_writes_is_whole(connection: Connection):
    start(connection, CommandSpec("exec > >(tee build.log) 2>&1; seq 20000; echo FINAL"))
    output = b"".join(follow(connection))
    assert output.endswith(b"20000\nFINAL\n")
    assert run_in_job(connection, "cat /workspace/build.log").stdout == output


@pytest.mark.real
def test_a_server_left_behind_is_ended_and_named(connection: Connection):
    """It does not cost the whole time that helpers may take, and one without the output costs nothing."""
    began = time.monotonic()
    start(connection, CommandSpec("sleep 600 >/dev/null 2>&1 & sleep 500 & echo up; exit 4"))
    following = follow(connection)
    assert b"".join(following) == b"up\n"
    assert following.exited is not None
    assert (following.exited.exit_code, following.exited.cut_off) == (4, ("sleep",))
    assert time.monotonic() - began < 25


@pytest.mark.real
def test_what_writes_for_ever_is_cut_off_at_the_time_out(connection: Connection):
    """The command ended in time."""
    start(connection, CommandSpec("while :; do echo on; sleep 0.1; done & exit 0", seconds=3.0))
    following = follow(connection)
    assert b"".join(following).startswith(b"on\n")
    assert following.exited is not None
    assert (following.exited.exit_code, following.exited.timed_out) == (0, False)
    assert following.exited.cut_off


@pytest.mark.real
def test_what_a_time_out_ends_is_not_named_as_left_behind(connection: Connection):
    """The command did not leave the process that does not heed TERM: it was to be ended, too."""
    start(connection, CommandSpec("(trap '' TERM; sleep 600) & sleep 600", seconds=1.0, grace=5))
    following = follow(connection)
    assert b"".join(following) == b""
    assert following.exited is not None
    assert (following.exited.timed_out, following.exited.cut_off) == (True, ())


def test_the_end_of_long_output_comes_after_a_gap(connection: Connection):
    """The beginning comes at once, and the gap is counted; who reads on after it gets the rest."""
    lines = "\n".join(f"echo {each:09}" for each in range(100))
    start(connection, CommandSpec(f"{lines}\nexit 6", output_limit=300, output_tail=200))
    following = follow(connection)
    text = b"".join(following)
    whole = b"".join(b"%09d\n" % each for each in range(100))
    assert text == whole[:100] + whole[-200:]
    assert (following.left_out, following.offset) == (700, 1000)
    assert following.exited == Exited(6, 300, truncated=True)
    for offset, left_out in ((0, 700), (50, 700), (500, 300), (900, 0), (1000, 0)):
        again = follow(connection, offset)
        kept = whole[offset:100] + whole[max(800, offset) :]
        assert (b"".join(again), again.left_out) == (kept, left_out)


def test_more_output_than_is_shown_is_told(connection: Connection):
    """The command runs on."""
    lines = "\n".join(f"echo {each:09}" for each in range(50))
    start(connection, CommandSpec(f"{lines}\nsleep 60", output_limit=300, output_tail=200))
    following = follow(connection)
    text = b""
    for piece in following:
        text += piece
        if following.paused:
            break
    assert text == b"".join(b"%09d\n" % each for each in range(10))
    assert inspect(connection) is CommandState.RUNNING
