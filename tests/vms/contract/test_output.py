"""Output of commands: all of it, in order and as it comes, however much it is."""

from __future__ import annotations

import pytest

from actors.vms import CommandSpec, Connection, Exited, Provider, follow, in_job, start
from storage import SystemClock
from tests.actors.vms.commands import TIMEOUT
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
    assert following.exited == Exited(6, following.offset, truncated=True)


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
