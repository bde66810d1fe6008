"""Builds that another process adds to the storage, such as `ci-daemon build rebuild`."""

from __future__ import annotations

from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph


def test_it_runs_though_nobody_announced_it_and_hits_the_cache(host: Host):
    """No VM would come for it: the pool looks for jobs when it is told of some."""
    ir = Graph().step("base", "true", cache={"policy": "forever", "key": "k"}).ir()
    assert host.finish(host.build(ir)).state == "passed"
    build = host.insert(ir)
    assert host.finish(build).state == "passed"
    assert host.job(build, "base").cache_hit
