"""Retries: by the job's own policy, and after faults of the service."""

from __future__ import annotations

import pytest

from actors import vms
from actors.timings import Timings
from actors.vms import VmSpec
from storage import BillingSettings, Build
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.memory.provider import MemoryProvider
from tests.waiting import until

PRICE = BillingSettings(cpu=50_000_000, memory_gb=0, disk_gb=0)
"""A default VM costs 100 cents a second."""


def attempts(host: Host, build: Build) -> list[tuple[int | None, str | None]]:
    """Return the exit code and the error code of each attempt."""
    return [(each.exit_code, each.error_code) for each in host.storage.attempts.of_job(host.job(build).id)]


def lose(host: Host, build: Build, attempt: int) -> None:
    """Destroy the VM of an attempt while its command runs."""
    host.says(build, b"try %d" % attempt)
    lease = host.storage.leases.of_job(host.job(build).id)
    assert lease is not None
    host.provider.destroy(lease.uuid)


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ("lost failed lost failed passed", "passed"),
        ("lost lost failed failed failed", "failed"),
        ("failed failed lost lost passed", "passed"),
        ("failed lost lost lost", "failed"),
    ],
)
@pytest.mark.parametrize("billing", [PRICE])
def test_neither_kind_of_retry_uses_up_the_other(host: Host, outcomes: str, state: str):
    expected = outcomes.split()
    does = {"lost": "sleep 600", "failed": "sleep 1.1", "passed": "sleep 1.1 && exit 0"}
    lines = [f"test $CI_ATTEMPT = {number} && {does[outcome]}" for number, outcome in enumerate(expected, 1)]
    command = "\n".join(["echo try $CI_ATTEMPT", *lines, "exit 7"])
    build = host.build(one(command, runner_args={"retry": {"limit": 2, "exit_codes": [7]}}))
    for number, outcome in enumerate(expected, 1):
        if outcome == "lost":
            lose(host, build, number)
    assert host.finish(build).state == state
    recorded = {"lost": (None, "vm_lost"), "failed": (7, None), "passed": (0, None)}
    assert attempts(host, build) == [recorded[outcome] for outcome in expected]
    until(lambda: not host.storage.leases.live(), "every lease ended")
    (debit,) = host.storage.ledger.page(build.organization_id, 10, None).rows
    billed = len(expected) - expected.count("lost")
    assert -debit.amount_cents >= billed * 100
    assert -debit.amount_cents % 100 == 0
    assert host.storage.ledger.verify() == []


@pytest.mark.parametrize("timings", [Timings(acquire=())])
def test_a_vm_that_cannot_be_made_is_the_services_fault(host: Host, monkeypatch: pytest.MonkeyPatch):
    create, faults = MemoryProvider.create, iter((True, True))

    def sometimes(provider: MemoryProvider, spec: VmSpec) -> None:
        if next(faults, False):
            raise vms.VmError("no room in the cellar")
        create(provider, spec)

    monkeypatch.setattr(MemoryProvider, "create", sometimes)
    build = host.build(one("exit 1", runner_args={"retry": {"limit": 1}}))
    assert host.finish(build).state == "failed"
    assert attempts(host, build) == [(None, "lease_failed"), (None, "lease_failed"), (1, None), (1, None)]
    assert host.job(build).error_code is None
    assert len(host.storage.ledger.page(build.organization_id, 10, None).rows) == 1


def test_a_back_off_lasts_as_its_policy_says_without_a_vm(host: Host):
    build = host.build(one("exit 1", runner_args={"retry": {"limit": 1, "backoff_seconds": 2}}))
    until(lambda: host.job(build).not_before, "the retry")
    until(lambda: not host.storage.leases.live(), "the lease's end")
    waiting = host.job(build)
    assert waiting.state == "scheduled"
    host.finish(build)
    first, second = host.storage.attempts.of_job(waiting.id)
    assert waiting.not_before is not None
    assert first.finished_at is not None
    assert (waiting.not_before - first.finished_at).total_seconds() == 2
    assert second.created_at >= waiting.not_before


def test_a_retry_that_waits_goes_on_waiting_in_the_next_process(host: Host):
    build = host.build(one("exit 1", runner_args={"retry": {"limit": 1, "backoff_seconds": 3}}))
    waiting = until(lambda: host.job(build).not_before, "the retry")
    host.restart()
    assert host.finish(build).state == "failed"
    assert host.storage.attempts.of_job(host.job(build).id)[1].created_at >= waiting
