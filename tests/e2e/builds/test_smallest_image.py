"""Jobs in an image that has nothing but /bin/sh: the service's own part of the VM does the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Build, Daemon, Pipeline
from tests.e2e.pipelines import Graph
from tests.e2e.sources import archive
from tests.e2e.terminal import Terminal
from tests.registry import Registry, only_a_shell, registry, store_beside
from tests.waiting import until

WAIT = "sh -c 'kill -STOP $$' & wait"
"""Waits for ever, by builtins alone."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as served:
        yield served


@pytest.fixture(scope="module")
def image(served: Registry) -> str:
    return served.add("smallest:1", only_a_shell())


@pytest.fixture(scope="module")
def store(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with store_beside(images_dir, tmp_path_factory.mktemp("store") / "images") as folder:
        yield folder


@pytest.fixture(scope="module")
def settings(served: Registry, store: Path) -> dict[str, str]:
    return {
        "CI_DAEMON_IMAGES_DIR": str(store),
        "CI_DAEMON_IMAGES_ON_DEMAND": "true",
        "CI_DAEMON_IMAGES_REGISTRIES": served.address,
        "CI_DAEMON_POOL_PARKED": "1",
        "CI_DAEMON_JOBS_KILL_GRACE": "1",
    }


@pytest.fixture(scope="module", autouse=True)
def pulled(daemon: Daemon, image: str) -> None:
    daemon.command("image", "pull", image)


def artifact(build: Build, path: str) -> str:
    (record,) = [each for each in build.client.get(f"{build.path}/artifacts")["data"] if each["path"] == path]
    return build.client.request("GET", record["download_url"].removeprefix(build.client.daemon.url)).text


def test_a_job_has_source_log_environment_and_artifacts(pipeline: Pipeline, image: str):
    command = """
        echo "$CI_STEP_KEY in $PWD as $HOME"
        for file in /bin/* /usr/*; do echo "$file"; done >files
        while read -r line; do echo "read: $line"; done <folder/greeting
    """
    graph = Graph().step("only", command, image=image, runner_args={"artifacts": ["files"]})
    build = pipeline.build(graph.ir(), source=archive({"folder/greeting": "hello\nthere\n"}))
    assert build.finish()["state"] == "passed"
    assert build.log() == "only in /workspace as /root\nread: hello\nread: there\nartifacts: 1 file, 15 bytes\n"
    assert artifact(build, "files") == "/bin/sh\n/usr/*\n"


def test_a_child_builds_on_the_disk(pipeline: Pipeline, image: str):
    graph = Graph().step("parent", "echo made >file", image=image)
    graph.step("child", "read -r line <file; echo child: $line; echo more >>file", builds_in="parent")
    graph.step("grandchild", "while read -r line; do echo $line; done <file", builds_in="child")
    build = pipeline.build(graph.ir(), source=archive({"greeting": "hello\n"}))
    assert build.finish()["state"] == "passed"
    assert build.log("child") == "child: made\n"
    assert build.log("grandchild") == "made\nmore\n"


def test_a_running_job_is_canceled(daemon: Daemon, pipeline: Pipeline, image: str):
    build = pipeline.build(Graph().step("only", f"echo begun; {WAIT}", image=image).ir())
    build.says("begun")
    build.cancel()
    assert build.finish()["state"] == "canceled"
    until(lambda: not jobs_with_vms(daemon), "the VM's end")


def test_a_step_is_ended_at_its_timeout(pipeline: Pipeline, image: str):
    build = pipeline.build(Graph().step("only", f"echo begun; {WAIT}", image=image, timeout_seconds=1).ir())
    assert build.finish()["state"] == "failed"
    assert build.states() == {"only": "timed_out"}
    assert build.log() == "begun\n"


def test_debug_enters_the_held_vm(daemon: Daemon, pipeline: Pipeline, image: str):
    graph = Graph().step("only", "echo made >file; exit 3", image=image)
    build = pipeline.build(graph.ir(), debug=True, env={"COLOUR": "red"})
    assert build.finish()["state"] == "failed"
    named = f"{pipeline.client.org}/{pipeline.slug}/{build.record()['number']}"
    script = 'read -r line <file; echo "$line $COLOUR $PWD"; exit 7'
    looked = daemon.command("debug", named, "--", "sh", "-c", script, check=False)
    assert (looked.returncode, looked.stdout) == (7, "made red /workspace\n")
    terminal = Terminal(daemon, named)
    try:
        terminal.shows("# ")
        terminal.type("read -r line <file; echo shown-$line-$COLOUR; exit 5\r")
        terminal.shows("shown-made-red")
        assert terminal.process.wait(30) == 5
    finally:
        terminal.close()
    daemon.command("debug", named, "--release")
    until(lambda: not jobs_with_vms(daemon), "the VM's end")


def jobs_with_vms(daemon: Daemon) -> list[Any]:
    return [lease["job_id"] for lease in daemon.json("lease", "list") if lease["job_id"] is not None]
