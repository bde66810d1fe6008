"""Jobs while their provider is away: they wait, nothing is lost, and none is tried again."""

from __future__ import annotations

import logging

import pytest

from storage import JobState
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one
from tests.memory.provider import MemoryProvider
from tests.waiting import until

AWAITED = "waits for its provider"


def awaited(caplog: pytest.LogCaptureFixture) -> None:
    until(lambda: AWAITED in caplog.text, "the job to notice", 30)
    caplog.clear()


@pytest.fixture
def provider(provider: MemoryProvider, caplog: pytest.LogCaptureFixture) -> MemoryProvider:
    caplog.set_level(logging.WARNING)
    return provider


def test_a_job_waits_until_its_provider_is_back(host: Host, provider: MemoryProvider, caplog: pytest.LogCaptureFixture):
    provider.away = True
    build = host.build(one("true"))
    awaited(caplog)
    assert host.job(build).state is JobState.ASSIGNED
    provider.away = False
    assert host.finish(build).state == "passed"
    assert host.job(build).attempt == 1


def test_a_job_that_waits_for_its_provider_can_be_canceled(
    host: Host, provider: MemoryProvider, caplog: pytest.LogCaptureFixture
):
    provider.away = True
    build = host.build(one("true"))
    awaited(caplog)
    host.engine.cancel(build.id)
    assert host.finish(build).state == "canceled"
    provider.away = False


def test_a_running_job_is_reattached_when_its_provider_is_back(
    host: Host, provider: MemoryProvider, caplog: pytest.LogCaptureFixture
):
    build = host.build(one("echo begun; sleep 3; echo done"))
    host.says(build, b"begun\n")
    provider.away = True
    host.restart()
    awaited(caplog)
    assert host.job(build).state is JobState.RUNNING
    provider.away = False
    assert host.finish(build).state == "passed"
    assert (host.log(build), host.job(build).attempt) == (b"begun\ndone\n", 1)


def test_a_disk_is_kept_when_its_provider_is_back(
    host: Host, provider: MemoryProvider, caplog: pytest.LogCaptureFixture
):
    graph = (
        Graph().step("parent", "echo begun; sleep 2; echo made > file").step("child", "cat file", builds_in="parent")
    )
    build = host.build(graph.ir())
    host.says(build, b"begun\n", "parent")
    provider.away = True
    awaited(caplog)
    provider.away = False
    assert host.finish(build).state == "passed"
    assert host.log(build, "child") == b"made\n"


def test_the_reaper_ends_no_lease_while_a_provider_is_away(host: Host, provider: MemoryProvider):
    lease = host.storage.leases.reserve_parked("vm", provider.name)
    provider.park("vm")
    host.storage.leases.parked(lease.id)
    provider.away = True
    host.reaper().reap()
    assert [each.uuid for each in host.storage.leases.live()] == ["vm"]
    provider.away = False
