"""The command of a VM, and the VM's other guest scripts: the workspace and the files in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from actors.vms import (
    CommandNotStarted,
    CommandSpec,
    CommandState,
    Connection,
    Exited,
    VmError,
    follow,
    inspect,
    start,
    terminate,
    update_workspace,
    write_source_manifest,
)
from tests.actors.vms.commands import run_in_job
from tests.e2e.sources import archive
from tests.vms.contract.conftest import Boot, Vm
from tests.vms.contract.hosts import Host


def ending(connection: Connection, offset: int = 0) -> tuple[bytes, Exited | None]:
    """Follow the VM's command to its end; return the output, and how it ended."""
    following = follow(connection, offset)
    return b"".join(following), following.exited


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("true", b"", 0),
        ("exit 3; echo never", b"", 3),
        ("echo \"$A\" '$A'\nprintf '$A\\n'", b"x;  y $A\n$A\n", 0),
        ("test $B = b && echo b; test $B = c || echo c", b"b\nc\n", 0),
        ("false && echo never || echo so; false", b"so\n", 1),
        ("echo one > file; test -e /workspace/file && cat file", b"one\n", 0),
        ("cat missing || exit", None, 1),
        ("nonsense-program", None, 127),
    ],
)
def test_a_command_has_its_output_and_exit_code(connection: Connection, command: str, output: bytes | None, code: int):
    start(connection, CommandSpec(command, env={"A": "x;  y", "B": "b"}))
    text, exited = ending(connection)
    assert exited == Exited(code, len(text), truncated=False)
    assert output is None or text == output


@pytest.mark.parametrize(("strict", "output", "code"), [(False, b"so\ndone\n", 0), (True, b"so\n", 1)])
def test_a_strict_command_ends_at_its_first_failure(connection: Connection, strict: bool, output: bytes, code: int):
    start(connection, CommandSpec("false || echo so\nfalse\necho done", strict=strict))
    assert ending(connection) == (output, Exited(code, len(output), truncated=False))


def test_a_commands_progress_can_be_asked(connection: Connection):
    with pytest.raises(CommandNotStarted):
        ending(connection)
    terminate(connection)
    assert inspect(connection) is CommandState.NOT_STARTED
    start(connection, CommandSpec("sleep 60"))
    assert inspect(connection) is CommandState.RUNNING
    terminate(connection)
    assert inspect(connection) is CommandState.ENDED
    assert ending(connection) == (b"", Exited(143, 0, truncated=False))


def test_starting_again_leaves_the_one_command_alone(boot: Boot):
    vm = boot()
    with vm.connect() as connection, vm.connect() as another:
        start(connection, CommandSpec("echo first; sleep 0.2; echo done"))
        start(another, CommandSpec("echo second"))
        assert ending(connection)[0] == b"first\ndone\n"
        start(connection, CommandSpec("echo third"))
        assert ending(connection)[0] == b"first\ndone\n"


def test_ending_an_ended_command_does_nothing(connection: Connection):
    start(connection, CommandSpec("exit 5"))
    ending(connection)
    terminate(connection)
    assert ending(connection)[1] == Exited(5, 0, truncated=False)


def test_output_comes_while_the_command_runs(connection: Connection):
    start(connection, CommandSpec("echo up; sleep 60"))
    assert next(iter(follow(connection))) == b"up\n"
    assert inspect(connection) is CommandState.RUNNING


def test_a_provider_opened_anew_finds_vm_and_command(boot: Boot, host: Host):
    vm = boot()
    with vm.connect() as connection:
        start(connection, CommandSpec("echo before; sleep 0.3; echo after; exit 3"))
        assert next(iter(follow(connection))) == b"before\n"
    vm.provider.close()
    later = Vm(host.open(), vm.id)
    assert list(later.provider.list()) == [vm.id]
    with later.connect() as connection:
        assert ending(connection, offset=7) == (b"after\n", Exited(3, 13, truncated=False))


def test_output_past_the_limit_is_dropped_without_an_error(connection: Connection):
    """The command goes on."""
    line = "x" * 100
    start(connection, CommandSpec("\n".join([f"echo {line}"] * 20) + "\nexit 6", output_limit=1000))
    text, exited = ending(connection)
    assert 1000 <= len(text) < 1512
    assert exited == Exited(6, len(text), truncated=True)


@pytest.mark.parametrize(("trap", "code", "grace"), [("true", 143, 60.0), ("trap '' TERM", 137, 0.3)])
def test_a_command_is_killed_if_it_ignores_its_grace(connection: Connection, trap: str, code: int, grace: float):
    start(connection, CommandSpec(f"{trap}; echo up; sleep 60"))
    assert next(iter(follow(connection))) == b"up\n"
    began = time.monotonic()
    terminate(connection, grace=grace)
    assert (time.monotonic() - began > grace / 2) is (code == 137)
    assert ending(connection) == (b"up\n", Exited(code, 3, truncated=False))


@pytest.mark.parametrize(("trap", "code"), [("true", 143), ("trap '' TERM", 137)])
def test_a_vm_ends_its_command_at_its_timeout_unasked(boot: Boot, trap: str, code: int):
    """A shell ends by TERM as it starts; so its time is made longer until it has set its trap before."""
    for seconds in (0.5, 2.0, 8.0, 32.0):
        vm, began = boot(), time.monotonic()
        with vm.connect() as connection:
            start(connection, CommandSpec(f"{trap}; echo up; sleep 60", seconds=seconds, grace=0.3))
        with vm.connect() as connection:
            output, exited = ending(connection)
        assert time.monotonic() - began > seconds * 0.8
        if output:
            break
        vm.provider.destroy(vm.id)
    assert (output, exited) == (b"up\n", Exited(code, 3, truncated=False, timed_out=True))


def test_a_command_that_is_being_canceled_does_not_time_out(connection: Connection):
    start(connection, CommandSpec("trap '' TERM; echo up; sleep 60", seconds=2.0, grace=0.1))
    assert next(iter(follow(connection))) == b"up\n"
    terminate(connection, grace=2.5)
    assert ending(connection)[1] == Exited(137, 3, truncated=False)


def test_a_vm_that_is_lost_says_nothing_of_its_command(boot: Boot):
    vm = boot()
    with vm.connect() as connection:
        start(connection, CommandSpec("echo up; sleep 60"))
        chunks = iter(follow(connection))
        assert next(chunks) == b"up\n"
        vm.provider.destroy(vm.id)
        with pytest.raises(VmError):
            list(chunks)


def test_a_workspace_matches_each_archive(connection: Connection, tmp_path: Path):
    """Files of steps stay; those of an earlier archive go."""
    made: list[Path] = []
    for files in ({"same": "1", "a/gone": "1", "a/deep/gone": "1"}, {"same": "1", "a/new": "2"}):
        packed, manifest = tmp_path / f"{len(made)}.tar.gz", tmp_path / f"{len(made)}.manifest"
        packed.write_bytes(archive(files))
        write_source_manifest(packed, manifest, max_bytes=1 << 20)
        update_workspace(connection, packed, manifest, made[-1] if made else None, time=0)
        run_in_job(connection, "echo made > /workspace/step")
        made.append(manifest)
    look = "\n".join(f"test -e /workspace/{name} && echo {name}" for name in ("same", "a/gone", "a/deep/gone", "a/new"))
    shown = run_in_job(connection, f"{look}\ncat /workspace/step; cat /workspace/a/new").stdout
    assert shown == b"same\na/new\nmade\n2"
