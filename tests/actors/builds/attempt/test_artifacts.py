from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from actors import ArtifactSettings
from actors.vms import Connection, in_job
from storage import Build
from tests.actors.conftest import Host
from tests.waiting import until

pytestmark = pytest.mark.sandbox


def ir(cmd: str, *globs: str, **options: Any) -> str:
    node = {"step": {"key": "only", "cmd": cmd, "runner_args": {"artifacts": globs, **options}}, "env": {}}
    return json.dumps({"version": "0", "graph": {"nodes": [node], "edges": []}})


def left(host: Host, build: Build) -> dict[str, bytes]:
    """Return the artifacts of a build's job: contents by path, each checked against its row."""
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


def test_a_child_builds_in_the_disk_with_the_artifacts(host: Host):
    nodes = [
        {"step": {"key": "only", "cmd": "echo x >f", "runner_args": {"artifacts": ["f"]}}, "env": {}},
        {"step": {"key": "child", "cmd": "cat f"}, "env": {}},
    ]
    edges = [[0, 1, "builds_in"]]
    build = built(host, json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}}))
    assert build.state == "passed"
    assert left(host, build) == {"f": b"x\n"}
    assert host.log(build, "child") == b"x\n"


def settings(host: Host, **bounds: float) -> None:
    """Restart the engine with limits on artifacts."""
    host.settings = replace(host.settings, artifacts=ArtifactSettings(**bounds))  # type: ignore[arg-type] # each is of its field's type
    host.restart()


def test_more_files_than_allowed_are_cut_off_with_a_notice(host: Host):
    settings(host, max_files=10)
    build = built(host, ir("for i in $(seq 100); do echo $i >f$i; done", "f*"))
    assert build.state == "passed"
    assert len(left(host, build)) == 10
    assert b"only the first 10 files are kept" in host.log(build)


def test_what_is_too_large_is_left_and_the_others_are_kept(host: Host):
    settings(host, max_gb=10_000 / 2**30)
    cmd = (
        "echo a >a; head -c 20000 /dev/zero >b; head -c 9000 /dev/zero >c; head -c 5000 /dev/zero >d; echo e >e; ln b f"
    )
    build = built(host, ir(cmd, "?"))
    assert build.state == "passed"
    assert {path: len(content) for path, content in left(host, build).items()} == {"a": 2, "c": 9000, "e": 2}
    assert 'not kept, because of the limit of 10,000 bytes for all: "b", "d", "f"' in host.log(build).decode()


def test_ten_thousand_files_with_names_of_all_kinds(host: Host):
    make = r"""
        mkdir many; cd many; for i in $(seq 10000); do : >"$i"; done; cd ..
        mkdir names; cd names
        : >"$(printf 'new\nline')"; : >ü☃; : >' '; : >'-rf'; : >"$(printf 'latin-\374')"; : >'"quote'
    """
    build = built(host, ir(make, "names", "many/9999"))
    names = {"new\nline", "ü☃", " ", "-rf", '"quote'}
    assert set(left(host, build)) == {f"names/{name}" for name in names} | {"many/9999"}
    assert b"not kept, because their names are not UTF-8: 1\n" in host.log(build)


@pytest.mark.parametrize("tool", ["tar", "find", "xargs", "sh", "cat", "flock", "unshare", "tar find sh"])
def test_programs_that_a_job_replaced_collect_nothing(host: Host, tool: str):
    """The service brings its own."""
    swap = f"""
        echo a >a; echo b >b
        for each in {tool}; do
            printf '#!/bin/bash\necho harm >>/workspace/harm\nyes\n' >/fake && chmod +x /fake
            mv -T /fake $(readlink -f $(command -v $each))
        done
    """
    build = built(host, ir(swap, "**"))
    assert host.job(build).state == "passed"
    assert left(host, build) == {"a": b"a\n", "b": b"b\n"}


@pytest.mark.parametrize(
    ("harm", "kept"),
    [
        ("cd /; rm -rf workspace", {}),
        ("cd /; rm -rf workspace; echo other >srv/b; ln -s /srv workspace", {"b": b"other\n"}),
        ("cd /; rm -rf workspace; ln -s /run/ci-daemon workspace", {}),
        ("cd /; rm -rf workspace; echo file >workspace", {}),
        ("cd /; rm -rf workspace; mkfifo workspace", {}),
        ("mount --bind /etc /workspace", {"a": b"a\n", "b": b"b\n"}),
        ("mount -t tmpfs none /workspace", {"a": b"a\n", "b": b"b\n"}),
        ("rm b; ln -s /etc/passwd b; mkfifo c", {"a": b"a\n"}),
        ("rm a; ln -s /etc a; mkdir c; ln -s ../../etc c/d", {"b": b"b\n"}),
        ("chmod 0 a b; chmod 0 .", {"a": b"a\n", "b": b"b\n"}),
        ("deep=$(printf 'd/%.0s' $(seq 1500)); mkdir -p $deep; echo deep >$deep/f", None),
    ],
)
def test_a_workspace_that_means_harm_costs_nothing_more(host: Host, harm: str, kept: dict[str, bytes] | None):
    settings(host, timeout=10.0)
    build = built(host, ir(f"echo a >a; echo b >b; {harm}; true", "**"))
    assert host.job(build).state == "passed"
    deep = {"a": b"a\n", "b": b"b\n", f"{'d/' * 1500}f": b"deep\n"}
    assert left(host, build) == (deep if kept is None else kept)
    assert re.search(rb"artifacts: \d files?, \d+ bytes\n", host.log(build))


def test_what_a_job_left_in_the_background_writes_no_more(host: Host):
    growing = "echo x >x; (setsid sh -c 'while :; do echo y >>growing; done' &); until [ -s growing ]; do :; done"
    build = built(host, ir(growing, "growing", "x"))
    assert build.state == "passed"
    found = left(host, build)
    assert found["x"] == b"x\n"
    assert set(found["growing"]) == set(b"y\n")


@contextmanager
def collecting(host: Host, build: Build) -> Iterator[str]:
    """Yield the VM of a job, which is `READY`, while its artifacts wait to be collected."""
    host.says(build, b"ready")
    (vm,) = host.provider.list()
    with Connection(host.provider.connect(vm), host.clock) as connection:
        with connection.stream(LOCKED, timeout=None) as lock:
            holder = next(iter(lock)).decode()
            assert connection.run(in_job("touch /go"), timeout=60).exit_code == 0
            until(lambda: connection.run(WAITS, timeout=60).exit_code == 0, "the collection")
            yield vm
        if host.provider.alive(vm):
            connection.run(f"kill {holder}", timeout=60)


READY = "echo x >f; echo ready; until [ -e /go ]; do sleep 0.02; done"
LOCKED = "exec 9>/run/ci-daemon/workspace.lock && flock 9 && echo $$ && exec sleep 1000"
WAITS = "for each in /proc/[0-9]*; do ! grep -qx flock $each/comm || exit 0; done; exit 1"


def test_a_job_canceled_during_collection_leaves_no_artifacts(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build):
        host.engine.cancel(build.id)
        assert host.finish(build, 20).state == "canceled"
    assert left(host, build) == {}
    assert on_disk(host, build) == 0


def test_the_next_daemon_repeats_an_unfinished_collection(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build):
        host.restart()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {"f": b"x\n"}
    assert on_disk(host, build) == 1
    assert host.log(build).count(b"artifacts: 1 file") == 1


def test_a_vm_lost_during_collection_costs_only_the_artifacts(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build) as vm:
        host.provider.destroy(vm)
    assert host.finish(build).state == "passed"
    assert host.job(build).attempt == 1
    assert left(host, build) == {}
    assert b"kept: " in host.log(build)


def test_artifacts_stored_by_an_earlier_process_stay(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build):
        host.engine.stop()
        host.storage.artifacts.store(build, host.job(build), [])
    host.restart()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {}
    assert b"artifacts:" not in host.log(build)


def test_what_a_lost_attempt_has_left_does_not_count(host: Host):
    lost = f'[ "$CI_ATTEMPT" = 1 ] || exec sleep 1000; {READY}'
    nodes = [
        {"step": {"key": "only", "cmd": lost, "runner_args": {"artifacts": ["f"]}}, "env": {}},
        {"step": {"key": "child", "cmd": "true"}, "env": {}},
    ]
    build = host.build(json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": [[0, 1, "builds_in"]]}}))
    with collecting(host, build) as vm:
        host.engine.stop()
        files = host.storage.artifacts.files
        host.storage.artifacts.store(build, host.job(build), [files.write(build.uuid, "f", [b"x"])])
        host.provider.destroy(vm)
    host.restart()
    until(lambda: host.job(build).attempt == 2, "the next attempt")
    assert left(host, build) == {}
    assert on_disk(host, build) == 0
    host.engine.cancel(build.id)
    assert host.finish(build).state == "canceled"
