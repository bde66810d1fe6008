"""An attempt that begins again after a power cut, which the database has forgotten."""

from __future__ import annotations

import pytest

from actors.vms import VmSpec
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.memory.provider import MemoryProvider


def test_an_attempt_that_starts_again_has_its_own_lines_alone(host: Host, monkeypatch: pytest.MonkeyPatch):
    made = MemoryProvider.create

    def create(self: MemoryProvider, spec: VmSpec) -> None:
        (build,) = host.storage.builds.unfinished()
        (job,) = host.storage.jobs.of_build(build.id)
        with host.storage.logs.writer(build.uuid, job.uuid, 1) as before:
            before.output(b"before the cut\n")
        made(self, spec)

    monkeypatch.setattr(MemoryProvider, "create", create)
    build = host.build(one("echo ran"))
    assert host.finish(build).state == "passed"
    assert host.log(build) == b"ran\n"
