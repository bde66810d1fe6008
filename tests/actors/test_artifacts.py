from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from storage import Build
from tests.actors.conftest import Host


def ir(cmd: str, *globs: str, **options: Any) -> str:
    node = {"step": {"key": "only", "cmd": cmd, "runner_args": {"artifacts": globs, **options}}, "env": {}}
    return json.dumps({"version": "0", "graph": {"nodes": [node], "edges": []}})


def left(host: Host, build: Build) -> dict[str, bytes]:
    """Return what a build's job left: contents by path, each checked against its row."""
    found = {}
    for artifact in host.storage.artifacts.of_job(host.job(build).id):
        content = host.storage.artifacts.path(artifact).read_bytes()
        assert artifact.file_size == len(content)
        assert artifact.sha256 == hashlib.sha256(content).hexdigest()
        found[artifact.path] = content
    return found


def on_disk(host: Host, build: Build) -> int:
    folder = host.storage.directory / "artifacts" / build.uuid
    return len(list(folder.iterdir())) if folder.exists() else 0


def built(host: Host, document: str) -> Build:
    build = host.finish(host.build(document))
    assert on_disk(host, build) == len(left(host, build))
    return build


def test_what_the_globs_match_is_kept_as_it_is(host: Host):
    make = """
        mkdir -p dist/deep out 'a b'; printf one >dist/1.whl; printf two >dist/deep/2.whl; printf no >dist/deep/2.txt
        printf folder >out/x; : >out/empty; head -c 3000000 /dev/zero >'a b/ü\nz.bin'
    """
    build = built(host, ir(make, "dist/**/*.whl", "out", "a b/*"))
    assert build.state == "passed"
    assert left(host, build) == {
        "dist/1.whl": b"one",
        "dist/deep/2.whl": b"two",
        "out/x": b"folder",
        "out/empty": b"",
        "a b/ü\nz.bin": bytes(3000000),
    }
    assert b"artifacts: 5 files, 3,000,012 bytes" in host.log(build)


@pytest.mark.parametrize(
    ("end", "state"), [("exit 3", "failed"), ("exec sleep 100", "timed_out"), ("kill -9 $$", "failed")]
)
def test_a_job_that_does_not_pass_leaves_its_artifacts_too(host: Host, end: str, state: str):
    document = json.loads(ir(f"echo x >report; {end}", "report"))
    document["graph"]["nodes"][0]["step"]["timeout_seconds"] = 2
    build = built(host, json.dumps(document))
    assert host.job(build).state == state
    assert left(host, build) == {"report": b"x\n"}


def test_nothing_that_matches_is_a_notice_and_no_more(host: Host):
    build = built(host, ir("echo hello", "dist/*", "report.xml"))
    assert build.state == "passed"
    assert host.log(build).decode().splitlines()[0] == "hello"
    assert 'no file in the workspace matches "dist/*", "report.xml"' in host.log(build).decode()


def test_only_the_last_attempt_leaves_artifacts(host: Host):
    cmd = 'echo $CI_ATTEMPT >f; touch only-$CI_ATTEMPT; [ "$CI_ATTEMPT" = 2 ]'
    build = built(host, ir(cmd, "*", retry={"limit": 3}))
    assert left(host, build) == {"f": b"2\n", "only-2": b""}
    assert host.log(build).count(b"artifacts:") == 1


def test_hard_links_are_files_and_share_their_bytes(host: Host):
    build = built(host, ir("mkdir t; echo x >t/a; ln t/a t/b; ln t/a c", "t", "c"))
    assert left(host, build) == {"t/a": b"x\n", "t/b": b"x\n", "c": b"x\n"}
    assert len({path.stat().st_ino for path in (host.storage.directory / "artifacts" / build.uuid).iterdir()}) == 1


def test_links_and_special_files_are_not_taken_and_not_followed(host: Host):
    cmd = """
        ln -s /etc/shadow shadow; ln -s /etc etc; mkfifo fifo; ln -s gone dangling; ln -s real soft
        echo x >real; mknod device c 1 3 2>/dev/null; true
    """
    build = built(host, ir(cmd, "**"))
    assert build.state == "passed"
    assert left(host, build) == {"real": b"x\n"}


def test_an_heir_builds_in_the_disk_of_which_the_artifacts_were_taken(host: Host):
    nodes = [
        {"step": {"key": "only", "cmd": "echo x >f", "runner_args": {"artifacts": ["f"]}}, "env": {}},
        {"step": {"key": "heir", "cmd": "cat f"}, "env": {}},
    ]
    edges = [[0, 1, "builds_in"]]
    build = built(host, json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}}))
    assert build.state == "passed"
    assert left(host, build) == {"f": b"x\n"}
    assert host.log(build, "heir") == b"x\n"
