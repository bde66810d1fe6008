"""Schedules of a service that runs: of a connected repository's head, and of what was built before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from storage import Storage, SystemClock
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.e2e.sources import archive
from tests.git_repository import GitRepository
from tests.waiting import until

NIGHTLY = """
import harmont as hm

@hm.pipeline("nightly", triggers=[hm.push(tag="v*")])
def nightly():
    return hm.sh("echo $CI_BRANCH $CI_COMMIT; git log --format=%s", label="look")
"""
PIPELINE = "acme-web-nightly"


def schedule(daemon: Daemon, org: str, pipeline: str, branch: str = "main") -> str:
    """Add a yearly schedule whose time has come just now; return its id."""
    uuid: str = daemon.json("schedule", "add", org, pipeline, "0 0 1 1 *", "--branch", branch)["id"]
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        found = storage.schedules.by_uuid(uuid)
        assert found is not None
        storage.schedules.update(found.id, next_at=SystemClock().now() - timedelta(minutes=1))
    return uuid


def error_of(daemon: Daemon, org: str, pipeline: str, uuid: str) -> str | None:
    """Return why a schedule built nothing."""
    why: list[str | None] = [
        each["last_error"] for each in daemon.json("schedule", "list", org, pipeline) if each["id"] == uuid
    ]
    return why[0]


def built(daemon: Daemon, client: Client, pipeline: str, uuid: str) -> Build:
    """Wait for the build of a schedule, and return it."""

    def look() -> int | None:
        (found,) = [each for each in daemon.json("schedule", "list", client.org, pipeline) if each["id"] == uuid]
        assert found["last_error"] is None
        number: int | None = found["last_build_number"]
        return number

    return Build(client, f"pipelines/{pipeline}/builds/{until(look, 'a build', 90)}")


@contextmanager
def connected(daemon: Daemon, client: Client, folder: Path) -> Iterator[GitRepository]:
    """Make a repository with a tag, and connect it before its tag is pushed."""
    made = GitRepository(folder)
    made.commit("Begin", **{".hm__pipeline.py": NIGHTLY})
    made.push("main")
    daemon.command("repo", "connect", str(made.bare), "--org", client.org, "--poll", "1")
    try:
        until(lambda: daemon.json("repo", "list")[0]["checked_at"], "the first look")
        yield made
    finally:
        daemon.command("repo", "remove", str(made.bare), "--org", client.org)


def test_a_schedule_repeats_what_was_built_last(daemon: Daemon, pipeline: Pipeline):
    source = archive({"greeting": "hello\n"})
    pipeline.build(one('cat greeting; echo "$TARGET"'), source=source, env={"TARGET": "x"}).finish()
    uuid = schedule(daemon, pipeline.client.org, pipeline.slug)

    again = built(daemon, pipeline.client, pipeline.slug, uuid)

    record = again.finish()
    assert (record["state"], record["source"], record["rebuild_of"]) == ("passed", "schedule", 1)
    assert again.log() == "hello\nx\n"


def test_a_schedule_builds_the_head_that_no_trigger_wanted(daemon: Daemon, client: Client, tmp_path: Path):
    with connected(daemon, client, tmp_path) as repository:
        repository.push("HEAD:refs/tags/v1")
        until(lambda: client.request("GET", f"pipelines/{PIPELINE}/builds/1").status_code == 200, "the tag's build", 90)
        head = repository.commit("Go on [skip ci]", a="1")
        repository.push("main")
        uuid = schedule(daemon, client.org, PIPELINE)

        build = built(daemon, client, PIPELINE, uuid)

        record = build.finish(90)
        assert (record["state"], record["source"], record["commit"]) == ("passed", "schedule", head)
        assert build.log("look").endswith(f"main {head}\nGo on [skip ci]\nBegin\n")

        uuid = schedule(daemon, client.org, PIPELINE, branch="gone")
        until(lambda: error_of(daemon, client.org, PIPELINE, uuid), "the reason")
        assert error_of(daemon, client.org, PIPELINE, uuid) == f'{repository.bare} has no branch "gone"'
