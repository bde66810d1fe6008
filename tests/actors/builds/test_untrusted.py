"""Builds of pull requests from forks: what their jobs do not get, and cannot leave to others."""

from __future__ import annotations

import pytest

from storage import Build, SecretScope
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph, one

pytestmark = pytest.mark.sandbox

TOKEN = "hunter2-and-a-half"
FOREVER = {"policy": "forever", "key": "base"}


def passed(host: Host, ir: str, origin: str | None = None) -> Build:
    build = host.finish(host.build(ir, untrusted_origin=origin))
    assert build.state == "passed", host.log(build)
    return build


def test_a_job_runs_without_the_secrets_that_it_names(host: Host):
    for pipeline_id in (None, host.pipeline.id):
        scope = SecretScope(host.pipeline.organization_id, pipeline_id)
        host.storage.secrets.put(scope, "TOKEN", TOKEN)
    step = one('echo "[${TOKEN-unset}]"; env', runner_args={"secrets": ["TOKEN", "NOT_SET"]})
    log = host.log(passed(host, step, "pull/1/7"))
    assert b"[unset]\n" in log
    assert TOKEN.encode() not in log
    assert b"without its secrets: TOKEN, NOT_SET\n" in log


@pytest.mark.parametrize("of_fork_first", [True, False], ids=["the fork leaves a disk", "the fork finds no disk"])
def test_its_cache_is_of_its_pull_request_alone(host: Host, of_fork_first: bool):
    graph = Graph().step("base", "echo $CI_BUILD_NUMBER > /made", cache=FOREVER)
    ir = graph.step("only", "cat /made", builds_in="base").ir()

    def maker_of_disk(origin: str | None) -> int:
        return int(host.log(passed(host, ir, origin)))

    first, then = ("pull/1/7", None) if of_fork_first else (None, "pull/1/7")
    assert maker_of_disk(first) == 1
    assert maker_of_disk(then) == 2
    assert maker_of_disk("pull/1/70") == 3
    assert maker_of_disk(first) == 1
    assert maker_of_disk(then) == 2
