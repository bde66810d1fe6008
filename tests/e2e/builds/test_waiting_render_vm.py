"""Builds from source that are rendered in the VM that waits for them with the DSL loaded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from http.client import OK
from pathlib import Path

import pytest

from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.renders import rendered
from tests.e2e.sources import HELLO, pipeline_file
from tests.e2e.stock import await_stock
from tests.git_repository import GitRepository
from tests.state import run_sql
from tests.waiting import until

_numbers = itertools.count()

PUSHED = """
import harmont as hm

@hm.pipeline("pushed", triggers=[hm.push(branch="main")])
def pushed():
    return hm.sh("true")
"""

WAITS = "SELECT uuid FROM leases WHERE state = 'parked' AND image IS NOT NULL"
RENDERED = "SELECT builds.number FROM leases JOIN builds ON builds.id = leases.build_id WHERE leases.uuid = :vm"


@pytest.fixture(scope="module")
def one_client(daemon: Daemon) -> Client:
    """A user for the module: organizations would take turns with the VM that waits."""
    return Client.create(daemon, "waits@example.org")


@pytest.fixture
def client(one_client: Client) -> Client:
    return one_client


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    return client.pipeline(f"demo {next(_numbers)}")


@pytest.fixture(autouse=True)
def resumed(daemon: Daemon) -> Iterator[None]:
    """Resume the host after each test."""
    yield
    daemon.command("resume")


def built(pipeline: Pipeline) -> Build:
    """Run a build whose source was never rendered before."""
    build = rendered(pipeline, pipeline_file(f"# {next(_numbers)}\n{HELLO}"))
    assert build.finish()["state"] == "passed"
    (job,) = build.jobs()
    assert "hello from the source" in build.log(job)
    return build


def waiting_vm(daemon: Daemon) -> str:
    """Wait for the VM that waits for the next render; return its name."""
    ((name,),) = until(lambda: run_sql(daemon.state, WAITS), "a VM for the next render")
    return str(name)


def test_after_a_render_a_vm_waits_for_the_next(daemon: Daemon, pipeline: Pipeline):
    built(pipeline)
    waits = waiting_vm(daemon)
    build = built(pipeline).record()
    assert run_sql(daemon.state, RENDERED, vm=waits) == [(build["number"],)]
    assert waiting_vm(daemon) != waits


@pytest.fixture
def repository(daemon: Daemon, client: Client, tmp_path: Path) -> Iterator[GitRepository]:
    """A connected repository that was looked at."""
    made = GitRepository(tmp_path)
    made.commit("Begin")
    made.push("main")
    daemon.command("repo", "connect", str(made.bare), "--org", client.org, "--poll", "1")
    until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look")
    yield made
    daemon.command("repo", "remove", str(made.bare), "--org", client.org)


def test_a_push_is_rendered_in_the_vm_that_waits(
    daemon: Daemon, client: Client, pipeline: Pipeline, repository: GitRepository
):
    built(pipeline)
    waits = waiting_vm(daemon)
    repository.commit("Build", **{".hm__pipeline.py": PUSHED})
    repository.push("main")
    path = "pipelines/acme-web-pushed/builds/1"
    until(lambda: client.request("GET", path).status_code == OK, "the build of the push")
    assert Build(client, path).finish()["state"] == "passed"
    assert waiting_vm(daemon) != waits


def test_a_render_survives_the_loss_of_the_vm_that_waits(daemon: Daemon, pipeline: Pipeline):
    built(pipeline)
    daemon.command("lease", "kill", waiting_vm(daemon))
    built(pipeline)


def test_no_vm_waits_on_a_drained_host(daemon: Daemon, pipeline: Pipeline):
    built(pipeline)
    waiting_vm(daemon)
    daemon.command("drain")
    until(lambda: run_sql(daemon.state, WAITS) == [], "its end")


def test_the_next_process_ends_the_vm_of_a_crashed_one(daemon: Daemon, pipeline: Pipeline):
    built(pipeline)
    waits = waiting_vm(daemon)
    daemon.kill()
    daemon.start()
    assert waits not in await_stock(daemon, 1)
    built(pipeline)


def test_a_stopped_service_leaves_no_vm_that_only_it_could_use(daemon: Daemon, pipeline: Pipeline):
    built(pipeline)
    waiting_vm(daemon)
    assert daemon.stop() == 0
    assert run_sql(daemon.state, WAITS) == []
    daemon.start()
