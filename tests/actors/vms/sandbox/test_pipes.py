"""The way for pipes into a sandbox, and SSH where a VM has none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ConnectionLost, VmLost
from actors.vms.host.pipes import PROGRAMS
from actors.vms.ssh.pipes import PipeStream
from tests.actors.vms.commands import run_in_job
from tests.actors.vms.conftest import Vm

TIMEOUT = 60.0
WHO = "id -u; umask; pwd; grep -E 'Cap(Eff|Bnd)|Seccomp:|NoNewPrivs' /proc/self/status; readlink /proc/self/ns/*"


def folder_of(vm: Vm) -> Path:
    return vm.provider.vms_folder / vm.id


def test_a_program_of_a_pipe_is_what_it_is_over_ssh(vm: Vm):
    """It has ids, capabilities, filter, namespaces as of sshd, and no other descriptors."""
    with vm.connect() as connection:
        over_ssh = connection.run(WHO, timeout=TIMEOUT)
        with connection.transfer(WHO, timeout=TIMEOUT) as stream:
            assert isinstance(stream, PipeStream)
            by_pipe = stream.complete(10_000)
        assert by_pipe.exit_code == over_ssh.exit_code == 0
        expected = over_ssh.stdout.replace(b"/root\n", b"/\n")
        assert by_pipe.stdout.replace(b"/root\n", b"/\n") == expected
        with connection.transfer("ls /proc/self/fd", timeout=TIMEOUT) as stream:
            assert stream.complete(100).stdout.split() == [b"0", b"1", b"2", b"3"]  # the last is that of ls itself


def test_a_vm_without_the_socket_is_reached_over_ssh(vm: Vm):
    """So are VMs that an earlier release has made, after an upgrade."""
    (folder_of(vm) / PROGRAMS).unlink()
    with vm.connect() as connection, connection.transfer("cat", stdin=[b"x"], timeout=TIMEOUT) as stream:
        assert not isinstance(stream, PipeStream)
        assert stream.complete(10).stdout == b"x"


def test_a_vm_that_has_ended_takes_no_program(vm: Vm):
    with vm.connect() as connection:
        vm.provider.destroy(vm.id)
        with pytest.raises(VmLost, match="has ended"):
            connection.transfer("true", timeout=TIMEOUT)


def test_a_vm_that_ends_in_a_transfer_is_noticed(vm: Vm):
    def ending() -> Iterator[bytes]:
        yield b"x"
        vm.provider.destroy(vm.id)
        yield b"y"

    with (
        vm.connect() as connection,
        connection.transfer("cat", stdin=ending(), timeout=TIMEOUT) as stream,
        pytest.raises(ConnectionLost),
    ):
        stream.complete(100)


def test_what_is_no_program_is_passed_over(vm: Vm):
    """Messages with too few descriptors or too long a script start nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
        way.connect(str(folder_of(vm) / PROGRAMS))
        way.send(b"")
        way.send(b"touch /run/made")
        socket.send_fds(way, [b"touch /run/made"], [0, 1, 2])
        socket.send_fds(way, [b"touch /run/made;" + b" " * (1 << 16)], [0, 1, 2, 2])
    with vm.connect() as connection, connection.transfer("ls /run/made", timeout=TIMEOUT) as stream:
        assert stream.complete(100).exit_code != 0


def test_a_job_sees_nothing_of_the_way(vm: Vm):
    with vm.connect() as connection:
        seen = run_in_job(connection, "grep -c programs /proc/net/unix; find / -xdev -name programs -type s | wc -l")
    assert seen.stdout.split() == [b"0", b"0"]
