"""Jobs whose VM cannot be made: it is tried again, at nobody's cost, and the last reason is told."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from actors.settings import Timings
from actors.vms import VmError, VmSpec
from storage import Build
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.memory.provider import MemoryProvider

PAUSES = (0.01, 0.01)
TRIES = len(PAUSES) + 1
ATTEMPTS = 3

Refuse = Callable[[int], None]


@pytest.fixture
def timings() -> Timings:
    return Timings(acquire=PAUSES)


@pytest.fixture
def refuse(provider: MemoryProvider, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Let the provider fail so many times to make a VM; each time has a number in its reason."""
    left: list[int] = []

    def create(self: MemoryProvider, spec: VmSpec) -> None:
        if left:
            raise VmError(f"the engine starts none: reason {left.pop(0)}")
        made(self, spec)

    made = MemoryProvider.create
    monkeypatch.setattr(MemoryProvider, "create", create)
    return lambda times: left.extend(range(1, times + 1))


def debits(host: Host, build: Build) -> int:
    entries = host.storage.ledger.entries(build.organization_id)
    return sum(entry.source == "vm_lease_debit" for entry in entries)


def test_an_attempt_tries_to_make_its_vm_again(host: Host, refuse: Refuse, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    refuse(TRIES - 1)
    build = host.build(one("echo ran"))
    assert host.finish(build).state == "passed"
    assert (host.job(build).attempt, host.log(build), debits(host, build)) == (1, b"ran\n", 1)
    told = [line for line in caplog.messages if "could not be made" in line]
    assert [line.rpartition(": ")[2] for line in told] == ["reason 1", "reason 2"]


def test_a_job_whose_vm_is_not_made_is_tried_again_unbilled(host: Host, refuse: Refuse):
    refuse(TRIES)
    build = host.build(one("echo ran"))
    assert host.finish(build).state == "passed"
    assert (host.job(build).attempt, host.log(build), debits(host, build)) == (2, b"attempt 2\nran\n", 1)


def test_a_job_whose_vm_is_never_made_fails_with_the_last_reason(host: Host, refuse: Refuse):
    refuse(TRIES * ATTEMPTS)
    build = host.build(one("echo ran"))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert (job.attempt, job.error_code, debits(host, build)) == (ATTEMPTS, "lease_failed", 0)
    assert job.error_message == f"the engine starts none: reason {TRIES * ATTEMPTS}"
