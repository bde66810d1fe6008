"""A merge queue of a real repository: what is good lands in order, through a kill -9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.git_repository import GitRepository
from tests.ports import reserved_port
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.pull_request(branches="main")])
def ci():
    return hm.sh("ls; git log --format=%s -1; sleep 3; test ! -e bad", label="look", image="debian:12")
"""


@pytest.fixture(scope="module")
def settings(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    with reserved_port() as port:
        yield settings | {"CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}"}


def test_what_was_built_lands_through_a_kill(daemon: Daemon, client: Client, tmp_path: Path):
    repository = GitRepository(tmp_path)
    begin = repository.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    repository.push("main")
    url = str(repository.bare)
    daemon.command("repo", "connect", url, "--org", client.org, "--name", "acme/web", "--poll", "1")
    for name in ("good", "bad", "fine"):
        repository.git("checkout", "--quiet", "--detach", begin)
        repository.commit(f"Make {name}", **{name: name})
        repository.push(f"HEAD:refs/heads/{name}")
        daemon.command("merge-queue", "add", url, "--org", client.org, "--branch", name, "--target", "main")

    def queue() -> dict[str, Any]:
        return {each["name"]: each for each in daemon.json("merge-queue", "list", url, "--org", client.org)}

    until(lambda: queue()["bad"]["state"] == "building", "a candidate on top of another", 90)
    daemon.kill()
    daemon.start()
    until(lambda: not any(each["place"] for each in queue().values()), "the end of the queue", 120)
    found = queue()
    assert {name: each["state"] for name, each in found.items()} == {
        "good": "landed",
        "bad": "thrown_out",
        "fine": "landed",
    }
    assert found["bad"]["reason"].endswith("failed")
    repository.git("fetch", "--quiet", "origin", "main")
    assert repository.git("rev-parse", "FETCH_HEAD") == found["fine"]["merge_commit"]
    assert repository.git("rev-parse", "FETCH_HEAD^1") == found["good"]["merge_commit"]
    assert {"good", "fine"} < set(files := repository.git("ls-tree", "--name-only", "FETCH_HEAD").split())
    assert "bad" not in files
    (name,) = found["fine"]["builds"]
    built = daemon.json("build", "show", name)
    assert (built["state"], built["merge_commit"]) == ("passed", found["fine"]["merge_commit"])
    daemon.command("repo", "remove", url, "--org", client.org)
