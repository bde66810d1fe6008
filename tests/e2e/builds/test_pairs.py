"""Pipelines in YAML that have an equal in Python, run: the states of their jobs, and what these say."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.renders import rendered
from tests.e2e.stand_ins import stand_ins

PAIRS = Path(__file__).parents[2] / "data" / "language" / "pairs"


@pytest.fixture(scope="module")
def settings(images_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with stand_ins(images_dir, tmp_path_factory.mktemp("store") / "images", {"python:3.12": {}}) as store:
        yield {"CI_DAEMON_IMAGES_DIR": str(store), "CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "ada@example.org")


@dataclass
class Case:
    """The programs that a pipeline calls, and its outcome: states, and texts in the logs of jobs.

    What is in ``given`` is sent with the build. ``again`` are the texts of a second one.
    """

    programs: Mapping[str, str]
    states: Mapping[str, str]
    logs: Mapping[str, str]
    state: str = "passed"
    given: Mapping[str, Any] = field(default_factory=dict)
    again: Mapping[str, str] = field(default_factory=dict)


PASSED = {"test": "passed"}
CASES = {
    "after-failure": Case(
        {"Makefile": "test:\n\techo testing; exit 3\n", "tell.sh": "echo it failed"},
        {"test": "failed", "tell": "passed"},
        {"test": "testing", "tell": "it failed"},
        "failed",
    ),
    "always": Case(
        {"Makefile": "test:\n\tfalse\n", "clean.sh": "echo cleaning"},
        {"test": "failed", "clean": "passed"},
        {"clean": "cleaning"},
        "failed",
    ),
    "cache": Case(
        {"install.sh": "echo installing; echo installed > /installed", "test.sh": "cat /installed"},
        {"install": "passed", **PASSED},
        {"install": "installing", "test": "installed"},
        again={"install": 'the disk that "install" left in build 1', "test": "installed"},
    ),
    "choice-input": Case(
        {"deploy.sh": 'echo "to $1"'},
        {"deploy": "passed"},
        {"deploy": "to production"},
        given={"inputs": {"target": "production"}},
    ),
    "environment": Case({"Makefile": 'test:\n\techo "$$LANG $$LEVEL"\n'}, PASSED, {"test": "C.UTF-8 3"}),
    "event-condition": Case(
        {"Makefile": "test:\n\techo testing\npublish:\n\tfalse\n"},
        {**PASSED, "publish": "skipped"},
        {"test": "testing"},
    ),
    "fan-in": Case(
        {"a": "echo one", "b": "echo two", "all": "echo all"},
        {"a": "passed", "b": "passed", "all": "passed"},
        {"a": "one", "b": "two", "all": "all"},
    ),
    "files": Case(
        {
            "build.sh": "mkdir dist; echo built > dist/a.txt; echo no > dist/b.log",
            "check.sh": "ls",
            "pack.sh": "ls dist; cat dist/a.txt; test ! -e dist/b.log",
        },
        {"build": "passed", "check": "passed", "pack": "passed"},
        {"pack": "built"},
    ),
    "generates": Case(
        {
            "plan.sh": 'echo "jobs: {a: {from: plan, run: cat more.yml}, b: {needs: a, run: ./b.sh}}"',
            "notes.sh": "echo notes",
            "b.sh": "echo from b",
        },
        {"plan": "passed", "notes": "passed", "a": "passed", "b": "passed"},
        {"plan": "generated jobs: a, b", "a": "jobs: {a: ", "b": "from b"},
    ),
    "keep": Case(
        {
            "install.sh": "ls ~/.cache/tools modules || mkdir -p ~/.cache/tools modules\n"
            "echo a tool > ~/.cache/tools/tool; echo a module > modules/module"
        },
        {"install": "passed"},
        {"install": "nothing is kept yet"},
        again={"install": "module\n"},
    ),
    "locks": Case(
        {"deploy.sh": 'echo "to the $1"'},
        {"deploy-east": "passed", "deploy-west": "passed"},
        {"deploy-east": "to the east", "deploy-west": "to the west"},
    ),
    "matrix-files": Case(
        {"part.sh": "mkdir out; echo $1 > out/$1", "whole.sh": "cat out/one out/two"},
        {"part-one": "passed", "part-two": "passed", "whole": "passed"},
        {"whole": "one\ntwo\n"},
    ),
    "matrix-when": Case(
        {"test.sh": 'echo "on $1"'},
        {"test-a-x": "passed", "test-a-y": "skipped", "test-b-x": "passed", "test-b-y": "skipped"},
        {"test-a-x": "on a", "test-b-x": "on b"},
    ),
    "no-network": Case({"test.sh": "curl -sS https://192.0.2.1 || echo closed"}, PASSED, {"test": "closed"}),
    "ready-service": Case({"test.sh": "curl -fsS $1 && echo served"}, PASSED, {"test": "served"}),
    "retry": Case(
        {"flaky.sh": 'echo "attempt $CI_ATTEMPT"; [ "$CI_ATTEMPT" = 3 ] || exit 75'},
        {"flaky": "passed"},
        {"flaky": "attempt 3"},
    ),
    "shell": Case({}, {"report": "passed"}, {"report": "1\n"}),
    "short-timeout": Case(
        {"slow.sh": "echo slow; exec sleep 600", "after.sh": "false"},
        {"slow": "timed_out", "after": "skipped"},
        {"slow": "slow"},
        "failed",
    ),
    "soft-fail": Case(
        {"lint.sh": "echo a blemish; exit 1", "test.sh": "echo tested"},
        {"lint": "failed", **PASSED},
        {"lint": "a blemish", "test": "tested"},
    ),
    "working-directory": Case(
        {"setup.sh": "mkdir -p web; echo from the setup > web/made", "web/test.sh": "cat made; pwd"},
        {"setup": "passed", "web": "passed"},
        {"web": "from the setup\n/workspace/web\n"},
    ),
}


def source(file: Path, programs: Mapping[str, str], slug: str) -> bytes:
    """Return an archive with a pipeline under another name, and with programs of the shell."""
    pipeline = file.read_text().replace(f'@pipeline("{file.stem}")', f'@pipeline("{slug}")')
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        texts = {name: text if name == "Makefile" else f"#!/bin/sh\n{text}\n" for name, text in programs.items()}
        for name, text in {f".hm/{slug}{file.suffix}": pipeline, **texts}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


def check(build: Build, case: Case, logs: Mapping[str, str]) -> None:
    assert build.finish()["state"] == case.state
    assert build.states() == case.states
    for key, text in logs.items():
        assert text in build.log(key), (key, build.log(key))


@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_of_a_pair_runs(client: Client, name: str):
    case, pipeline = CASES[name], client.pipeline(name)
    given = source(PAIRS / f"{name}.yml", case.programs, pipeline.slug)
    check(rendered(pipeline, given, **case.given), case, case.logs)
    if case.again:
        check(rendered(pipeline, given, **case.given), case, case.again)


@pytest.mark.parametrize("name", ["files", "generates", "matrix-when"])
def test_its_equal_in_python_runs(client: Client, name: str):
    case, pipeline = CASES[name], client.pipeline(f"{name}-in-python")
    given = source(PAIRS / f"{name}.py", case.programs, pipeline.slug)
    check(rendered(pipeline, given, **case.given), case, case.logs)
