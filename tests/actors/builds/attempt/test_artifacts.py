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


def test_special_files_and_links_to_other_places_are_named(host: Host):
    """They are never followed out of the workspace, and the job passes."""
    cmd = """
        ln -s /etc/shadow shadow; ln -s /etc etc; mkfifo fifo; ln -s gone dangling; ln -s b a; ln -s a b
        echo x >real; mkdir -p in/deep; ln -s ../.. in/deep/up; ln -s ../../outside in/over
    """
    build = built(host, ir(cmd, "**"))
    assert build.state == "passed"
    assert left(host, build) == {"real": b"x\n"}
    log = host.log(build).decode()
    outside = '"etc", "in/over", "shadow"'
    assert f"not kept, because they are links that lead out of the workspace: {outside}\n" in log
    assert 'links that lead nowhere: "dangling"\n' in log
    assert 'links that lead in a circle: "a", "b", "in/deep/up"\n' in log
    assert 'neither files, folders nor links: "fifo"\n' in log


def test_links_are_kept_with_what_they_lead_to(host: Host):
    make = """
        echo l >run-1.log; ln -s run-1.log latest.log; ln -s /workspace/run-1.log absolute.log
        ln -s latest.log twice.log
        mkdir -p dist/x86_64/release out/deep; echo app >dist/x86_64/release/app; ln -s x86_64/release dist/release
        echo o >out/deep/o; ln -s deep/o out/o; ln -s ../dist out/dist; ln -s deep out/again
    """
    build = built(host, ir(make, "latest.log", "absolute.log", "twice.log", "dist/release/app", "out"))
    assert build.state == "passed"
    app = dict.fromkeys(("dist/release/app", "out/dist/x86_64/release/app", "out/dist/release/app"), b"app\n")
    logs = dict.fromkeys(("latest.log", "absolute.log", "twice.log"), b"l\n")
    assert left(host, build) == app | logs | {"out/deep/o": b"o\n", "out/o": b"o\n"}
    log = host.log(build).decode()
    assert '"out/again" leads to "out/deep"' in log
    assert "no file in the workspace" not in log


def test_a_farm_of_links_keeps_each_report_once(host: Host):
    """As a package manager makes it: each links to all, so there are more paths than atoms."""
    make = """
        for i in $(seq 30); do
            mkdir -p p/$i/node_modules; echo $i >p/$i/report.xml
            for j in $(seq 30); do ln -s ../../$j p/$i/node_modules/$j; done
        done
    """
    build = built(host, ir(make, "**/report.xml"))
    assert build.state == "passed"
    assert left(host, build) == {f"p/{number}/report.xml": f"{number}\n".encode() for number in range(1, 31)}
    assert host.log(build).decode() == "artifacts: 30 files, 81 bytes\n"


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


def lacks(host: Host, build: Build) -> str:
    """Return why a job failed that exited with 0, but without all of the files that it promised."""
    job = host.job(build)
    assert (build.state, job.state, job.exit_code) == ("failed", "failed", 0)
    assert job.error_code == "artifacts_incomplete"
    assert job.error_message is not None
    assert job.error_message.partition(": ")[2] in host.log(build).decode()
    return job.error_message


def test_more_files_than_allowed_fail_the_job(host: Host):
    settings(host, max_files=10)
    build = built(host, ir("for i in $(seq 100); do echo $i >f$i; done", "f*"))
    assert "100 files match, and a job may keep 10 (artifacts.max_files)" in lacks(host, build)
    assert len(left(host, build)) == 10


def test_what_is_too_large_fails_the_job_and_the_others_are_kept(host: Host):
    settings(host, max_gb=10_000 / 2**30)
    cmd = (
        "echo a >a; head -c 20000 /dev/zero >b; head -c 9000 /dev/zero >c; head -c 5000 /dev/zero >d; echo e >e; ln b f"
    )
    build = built(host, ir(cmd, "?"))
    assert '"b", "d", "f" would be more than the 10,000 bytes that a job may keep' in lacks(host, build)
    assert {path: len(content) for path, content in left(host, build).items()} == {"a": 2, "c": 9000, "e": 2}


def test_artifacts_that_take_too_long_fail_the_job(host: Host):
    settings(host, timeout=0.001)
    assert "it takes more than 0.001 s (artifacts.timeout)" in lacks(host, built(host, ir("echo x >f", "f")))


def test_a_failed_job_stays_failed_without_its_artifacts(host: Host):
    settings(host, max_files=1)
    build = built(host, ir("echo a >a; echo b >b; exit 3", "?"))
    job = host.job(build)
    assert (job.state, job.exit_code, job.error_code) == ("failed", 3, None)
    assert b"2 files match" in host.log(build)
    assert len(left(host, build)) == 1


def test_a_job_that_may_fail_may_lack_artifacts(host: Host):
    settings(host, max_files=1)
    build = built(host, ir("echo a >a; echo b >b", "?", soft_fail=True))
    assert (build.state, host.job(build).error_code) == ("passed", "artifacts_incomplete")


def test_each_glob_that_matches_nothing_is_told(host: Host):
    build = built(host, ir("echo a >a", "gone/*", "a", "b"))
    assert build.state == "passed"
    assert 'no file in the workspace matches "gone/*", "b"\n' in host.log(build).decode()


def test_ten_thousand_files_with_names_of_all_kinds(host: Host):
    make = r"""
        mkdir many; cd many; for i in $(seq 10000); do : >"$i"; done; cd ..
        mkdir names; cd names
        : >"$(printf 'new\nline')"; : >ü☃; : >' '; : >'-rf'; : >"$(printf 'latin-\374')"; : >'"quote'
    """
    build = built(host, ir(make, "names", "many/9999"))
    names = {"new\nline", "ü☃", " ", "-rf", '"quote', "latin-\\xfc"}
    assert build.state == "passed"
    assert set(left(host, build)) == {f"names/{name}" for name in names} | {"many/9999"}
    assert b"bytes of names that are not UTF-8 are written as" in host.log(build)


def test_two_files_of_one_written_name_fail_the_job(host: Host):
    build = built(host, ir(r"""echo a >"$(printf 'latin-\374')"; echo b >'latin-\xfc'""", "latin*"))
    assert "is the name of two files" in lacks(host, build)
    assert left(host, build) == {"latin-\\xfc": b"b\n"}


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
CUT = """
    for each in /proc/[0-9]*; do
        if grep -qx flock $each/comm; then
            session=${each#/proc/}
            until grep -q ^sshd /proc/$session/comm; do session=$(cut -d' ' -f4 /proc/$session/stat); done
            kill -9 $session
        fi
    done
"""
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


ONCE_READY = f'[ "$CI_ATTEMPT" = 2 ] || {{ {READY}; }}; echo $CI_ATTEMPT >f'


def test_a_vm_lost_during_collection_is_another_attempt(host: Host):
    build = host.build(ir(ONCE_READY, "f"))
    with collecting(host, build) as vm:
        host.provider.destroy(vm)
    assert host.finish(build).state == "passed"
    assert left(host, build) == {"f": b"2\n"}
    assert on_disk(host, build) == 1
    assert b"the VM was lost before its artifacts were kept" in host.log(build)


def test_a_vm_gone_before_collection_is_another_attempt(host: Host):
    """As after a restore of a backup that was taken meanwhile: the exit is recorded, and there is no VM."""
    build = host.build(ir(ONCE_READY, "f"))
    with collecting(host, build) as vm:
        host.engine.stop()
        host.provider.destroy(vm)
    host.restart()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {"f": b"2\n"}


def test_a_vm_lost_for_good_leaves_no_passed_job(host: Host):
    host.settings = replace(host.settings, jobs=replace(host.settings.jobs, service_retries=0))
    host.restart()
    nodes = [
        {"step": {"key": "only", "cmd": READY, "runner_args": {"artifacts": ["f"]}}, "env": {}},
        {"step": {"key": "publish", "cmd": "true"}, "env": {}},
    ]
    build = host.build(json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": [[0, 1, "depends_on"]]}}))
    with collecting(host, build) as vm:
        host.provider.destroy(vm)
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert (job.state, job.error_code, host.job(build, "publish").state) == ("failed", "vm_lost", "skipped")
    assert "before its artifacts were kept" in (job.error_message or "")
    assert left(host, build) == {}
    assert on_disk(host, build) == 0


def test_a_failed_job_whose_vm_is_lost_stays_failed(host: Host):
    build = host.build(ir(f"{READY}; exit 3", "f"))
    with collecting(host, build) as vm:
        host.provider.destroy(vm)
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert (job.attempt, job.exit_code, job.error_code) == (1, 3, None)
    assert b"the VM was lost before its artifacts were kept" in host.log(build)


def test_a_dropped_connection_during_collection_is_made_again(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build) as vm, Connection(host.provider.connect(vm), host.clock) as connection:
        assert connection.run(CUT, timeout=60).exit_code == 0
    assert host.finish(build).state == "passed"
    assert host.job(build).attempt == 1
    assert left(host, build) == {"f": b"x\n"}


def test_artifacts_wait_while_the_host_cannot_keep_them(host: Host):
    build = host.build(ir(READY, "f"))
    obstacle = host.storage.directory / "artifacts" / build.uuid
    with collecting(host, build):
        obstacle.parent.mkdir(exist_ok=True)
        obstacle.touch()
    host.says(build, b"the artifacts wait, as the host cannot keep them: ")
    obstacle.unlink()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {"f": b"x\n"}


def test_a_host_that_keeps_no_artifacts_fails_the_job(host: Host):
    settings(host, timeout=3)
    build = host.build(ir(READY, "f"))
    obstacle = host.storage.directory / "artifacts" / build.uuid
    with collecting(host, build):
        obstacle.parent.mkdir(exist_ok=True)
        obstacle.touch()
    assert host.finish(build).state == "failed"
    job = host.job(build)
    obstacle.unlink()
    assert (job.exit_code, job.error_code) == (0, "internal_error")
    assert "the host cannot keep them" in (job.error_message or "")


def test_a_successor_collects_again_what_was_incomplete(host: Host):
    settings(host, max_files=1)
    build = host.build(ir(f"{READY}; echo y >g", "?"))
    with collecting(host, build):
        host.engine.stop()
        files = host.storage.artifacts.files
        host.storage.artifacts.store(build, host.job(build), [files.write(build.uuid, "f", [b"x"])], complete=False)
    host.restart()
    assert "2 files match" in lacks(host, host.finish(build))
    assert on_disk(host, build) == 1


def test_artifacts_stored_by_an_earlier_process_stay(host: Host):
    build = host.build(ir(READY, "f"))
    with collecting(host, build):
        host.engine.stop()
        host.storage.artifacts.store(build, host.job(build), [])
    host.restart()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {}
    assert b"artifacts:" not in host.log(build)


def test_stored_artifacts_without_files_are_collected_again(host: Host):
    """As after a restore of a backup that lacks them."""
    build = host.build(ir(READY, "f"))
    with collecting(host, build):
        host.engine.stop()
        files = host.storage.artifacts.files
        gone = files.write(build.uuid, "f", [b"x\n"])
        host.storage.artifacts.store(build, host.job(build), [gone])
        files.remove(build.uuid, [gone.uuid])
    host.restart()
    assert host.finish(build).state == "passed"
    assert left(host, build) == {"f": b"x\n"}


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
