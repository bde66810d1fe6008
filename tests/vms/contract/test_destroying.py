"""Destroying a VM in each of its states: afterwards nothing is left of it, and its name is free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.vms import CommandSpec, Connection, Provider, VmSpec, VmUse, follow, start
from tests.actors.vms.commands import ended
from tests.vms.contract.conftest import Vm, park
from tests.vms.contract.hosts import IMAGE, Host, processes_in
from tests.waiting import until

SPEC = VmSpec("vm", IMAGE, network=False)


def never_made(_host: Host, _provider: Provider) -> None:
    """Make nothing."""


def parked(_: Host, provider: Provider) -> None:
    park(provider, SPEC.id)


def crashed_while_parked(host: Host, provider: Provider) -> None:
    park(provider, SPEC.id)
    host.crash(SPEC.id)
    until(lambda: not provider.parked(SPEC.id), "the VM's end")


def attached(_: Host, provider: Provider) -> None:
    provider.create(SPEC)


def in_use(_: Host, provider: Provider) -> None:
    running(provider, "echo up; sleep 600")


def in_use_by_a_job_that_ignores_signals(_: Host, provider: Provider) -> None:
    running(provider, "trap '' TERM; echo up; sleep 600")


def after_its_command(_: Host, provider: Provider) -> None:
    with running(provider, "echo up; exit 3") as connection:
        assert ended(connection).exit_code == 3


def kept(_: Host, provider: Provider) -> None:
    provider.create(SPEC)
    provider.snapshot(SPEC.id, "taken")


def crashed(host: Host, provider: Provider) -> None:
    running(provider, "echo up; sleep 600")
    host.crash(SPEC.id)


def destroyed(_: Host, provider: Provider) -> None:
    provider.create(SPEC)
    provider.destroy(SPEC.id)


def running(provider: Provider, command: str) -> Connection:
    """Make a VM whose command has begun."""
    provider.create(SPEC)
    connection = Vm(provider, SPEC.id).connect()
    start(connection, CommandSpec(command))
    assert next(iter(follow(connection))) == b"up\n"
    return connection


@pytest.mark.parametrize(
    "reach",
    [
        never_made,
        pytest.param(parked, marks=pytest.mark.parks),
        pytest.param(crashed_while_parked, marks=pytest.mark.parks),
        attached,
        in_use,
        in_use_by_a_job_that_ignores_signals,
        after_its_command,
        kept,
        crashed,
        destroyed,
    ],
)
def test_nothing_is_left_of_a_vm(host: Host, provider: Provider, reach: Callable[[Host, Provider], None]):
    reach(host, provider)
    for _ in range(2):
        provider.destroy(SPEC.id)
        assert list(provider.list()) == []
    assert not provider.alive(SPEC.id)
    assert not provider.parked(SPEC.id)
    assert provider.use(SPEC.id) == VmUse()
    assert processes_in(host.folder) == []
    provider.create(SPEC)
    assert Vm(provider, SPEC.id).run("echo well; test -e /workspace/file") == (1, b"well\n")
