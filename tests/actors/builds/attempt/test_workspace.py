"""Sources on cached disks: each disk has its own build's source, and keeps its manifest."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors import vms
from actors.builds.attempt import workspace
from actors.repositories import RepositorySettings, SourceSettings
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.packing.packing import pack_commit
from ci_daemon.submit import git_folder, pack
from storage import Build, Snapshot, SystemClock
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph
from tests.e2e.sources import archive
from tests.git_repository import GitRepository
from tests.waiting import until

pytestmark = pytest.mark.sandbox


def cached(key: str) -> dict[str, Any]:
    return {"cache": {"policy": "forever", "key": key}}


def built(host: Host, *keys: str, source: dict[str, str] | None) -> Build:
    """Build a chain of cached steps, and a step ``test`` on the last disk that prints all files."""
    graph = Graph()
    for number, key in enumerate(keys):
        parent = keys[number - 1] if number else None
        graph.step(key, f"echo {key} >made-{key}", builds_in=parent, **cached(key))
    graph.step("test", "grep -r '' . | sort", builds_in=keys[-1])
    packed = None if source is None else archive(source)
    build = host.finish(host.build(graph.ir(), source_archive=packed))
    assert build.state == "passed", [
        (job.name, job.error_code, job.error_message) for job in host.storage.jobs.of_build(build.id)
    ]
    return build


def shown(host: Host, build: Build) -> list[str]:
    return [line.removeprefix("./") for line in host.log(build, "test").decode().splitlines()]


def manifests(host: Host) -> list[str]:
    return host.storage.sources.manifests()


def test_each_disk_of_a_chain_holds_the_source_of_its_own_build(host: Host):
    built(host, "base", "deps", source={"f": "one", "only": "one"})
    second = built(host, "base", "other", source={"f": "two"})
    assert shown(host, second) == ["f:two", "made-base:base", "made-other:other"]
    third = built(host, "base", "other", "more", source={"f": "two", "new": "three"})
    assert shown(host, third) == ["f:two", "made-base:base", "made-more:more", "made-other:other", "new:three"]
    assert [job.cache_hit for job in host.storage.jobs.of_build(third.id)] == [True, True, False, False]


def test_a_build_without_a_source_finds_none_in_the_cache(host: Host):
    built(host, "base", source={"f": "one"})
    assert shown(host, built(host, "base", source=None)) == ["made-base:base"]
    built(host, "bare", source=None)
    assert shown(host, built(host, "bare", source={"f": "two"})) == ["f:two", "made-bare:bare"]


def test_a_manifest_stays_as_long_as_a_disk_with_its_source(host: Host):
    build = built(host, "base", source={"f": "one"})
    host.reaper().sweep()
    assert manifests(host) == [build.uuid]
    host.storage.cache.drop(host.storage.cache.entries())

    def gone() -> bool:
        host.reaper().sweep()
        return manifests(host) == []

    until(gone, "the manifest to go with the disk")


@pytest.mark.parametrize("damage", [None, b"", b"damaged" * 1000])
def test_a_disk_of_an_unknown_source_is_not_used(host: Host, damage: bytes | None):
    first = built(host, "base", source={"f": "one", "gone": "one"})
    manifest = host.storage.sources.manifest(first.uuid)
    manifest.unlink()
    if damage is not None:
        manifest.write_bytes(damage)
    second = built(host, "base", source={"f": "two"})
    assert not host.job(second, "base").cache_hit
    assert shown(host, second) == ["f:two", "made-base:base"]
    assert host.job(built(host, "base", source={"f": "two"}), "base").cache_hit


def test_a_disk_from_a_time_to_come_is_not_used(host: Host, monkeypatch: pytest.MonkeyPatch):
    """After the clock is set back, everything on the disk would seem newer than its sources."""
    built(host, "base", source={"f": "one"})
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda clock: now(clock) - timedelta(minutes=1))
    second = built(host, "base", source={"f": "two"})
    assert not host.job(second, "base").cache_hit


def test_a_manifest_removed_before_its_use_fails_the_job(host: Host, monkeypatch: pytest.MonkeyPatch):
    first = built(host, "base", source={"f": "one"})
    real = workspace.populate_workspace

    def late(*arguments: Any, **named: Any) -> None:
        host.storage.sources.remove_manifest(first.uuid)
        real(*arguments, **named)

    monkeypatch.setattr("actors.builds.attempt.runner.populate_workspace", late)
    graph = Graph().step("base", "echo base >made-base", **cached("base")).step("test", "true", builds_in="base")
    build = host.finish(host.build(graph.ir(), source_archive=archive({"f": "two"})))
    job = host.job(build, "test")
    assert (build.state, job.error_code) == ("failed", "snapshot_failed")
    assert "the source on the disk to build in is unknown" in str(job.error_message)


def test_an_archive_is_read_once_for_all_jobs_of_a_build(host: Host, monkeypatch: pytest.MonkeyPatch):
    read = []
    real = vms.write_source_manifest_confined
    monkeypatch.setattr(
        vms, "write_source_manifest_confined", lambda *args, **named: (read.append(args), real(*args, **named))
    )
    graph = Graph().step("a", "cat f").step("b", "cat f", after=("a",)).step("c", "cat f", builds_in="b")
    build = host.finish(host.build(graph.ir(), source_archive=archive({"f": "text"})))
    assert [host.log(build, key) for key in "abc"] == [b"text"] * 3
    assert len(read) == 1


@contextmanager
def full(folder: Path) -> Iterator[Path]:
    """Make a folder a full disk; removing the file that is yielded makes room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
    try:
        yield folder / "filler"
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("room_comes", [True, False])
def test_a_source_waits_for_a_full_disk_and_not_for_ever(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, room_comes: bool
):
    read, real = [], vms.write_source_manifest_confined
    monkeypatch.setattr(
        vms, "write_source_manifest_confined", lambda *args, **named: (read.append(args), real(*args, **named))
    )
    jobs = replace(host.settings.jobs, source_timeout=60.0 if room_comes else 1.0)
    host.engine.reconfigure(replace(host.settings, jobs=jobs))
    with full(host.storage.directory / "sources") as filler:
        build = host.insert(Graph().step("a", "cat f").ir(), source_archive=archive({"f": "text"}))
        with suppress(OSError), filler.open("wb") as file:
            file.write(b"-" * 2**20)
        host.engine.jobs_added(build.id)
        if room_comes:
            until(lambda: len(read) > 1, "a second attempt to check the source")
            filler.unlink()
        ended = host.finish(build)
    (job,) = host.storage.jobs.of_build(build.id)
    assert ended.state == ("passed" if room_comes else "failed"), (job.error_code, job.error_message)
    why = "the source could not be checked on the host for 1 s: the manifest of a source archive cannot be written now"
    assert room_comes or (job.error_code == "source_fetch_failed" and why in (job.error_message or ""))


def test_an_archive_too_large_for_a_disk_is_refused(host: Host):
    build = host.insert(Graph().step("a", "true").ir(), source_archive=archive({"f": "x" * 5000}))
    for _ in range(2):
        with pytest.raises(vms.SourceError, match="unpacks to"):
            workspace.source_manifest(host.storage, build, max_bytes=1000)
        assert workspace.source_manifest(host.storage, build, max_bytes=10_000).exists()


@pytest.mark.parametrize(
    ("kept", "now", "pause"), [(0.2, 0.3, 0.7), (0.999, 1.0, None), (0.2, 5.0, None), (0.5, 0.4, None)]
)
def test_what_changed_is_written_in_a_later_second_than_the_disk(kept: float, now: float, pause: float | None):
    """Python reuses byte code if the source has the same size and modification time in whole seconds."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    pauses: list[float] = []
    clock = SimpleNamespace(now=lambda: begin + timedelta(seconds=now))
    disk = Snapshot("s", 1, "sandbox", begin + timedelta(seconds=kept))
    workspace.await_next_second(clock, disk, SimpleNamespace(pause=pauses.append))
    assert pauses == ([] if pause is None else [pytest.approx(pause)])


@pytest.mark.parametrize("way", ["pushed", "submitted"])
def test_git_finds_no_change_in_the_workspace_of_a_job(host: Host, tmp_path: Path, way: str):
    """Neither among files that `.gitignore` matches, nor in any that a checkout converts."""
    repository = GitRepository(tmp_path)
    repository.git("config", "core.autocrlf", "true")
    repository.commit(
        kept__jar="jar",
        text="a\nb\n",
        id="$Id$\n",
        link__to="1",
        **{
            ".gitattributes": "*.u16 text working-tree-encoding=UTF-16\n*.sh eol=lf\nid ident\nsecret export-ignore\n",
            "run.sh": "#!/bin/sh\necho ran\n",
            "secret": "$Format:%H$\n",
        },
    )
    (repository.path / "wide.u16").write_bytes("wide ü\n".encode("utf-16"))
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "link" / "up").symlink_to("../text")
    (repository.path / ".gitignore").write_text("kept\n*.u16\n")
    repository.git("add", "--force", "--all")
    commit = repository.commit("All")
    repository.git("rm", "--quiet", "-r", "--cached", ".")
    repository.git("reset", "--quiet", "--hard")
    repository.push("main")
    if way == "pushed":
        mirror = Mirror(tmp_path / "mirror", str(repository.bare), RepositorySettings())
        mirror.fetch()
        source = pack_commit(mirror, "refs/heads/main", commit, SourceSettings())
    else:
        (repository.path / "empty").mkdir()
        with git_folder(repository.path) as history:
            source = pack(repository.path, history=history).data
    command = "git status --porcelain && ./run.sh && test -f kept/jar && test -f secret && cat link/up"
    build = host.finish(host.build(Graph().step("test", command).ir(), source_archive=source))
    assert host.log(build, "test").decode().splitlines() == ["ran", "a", "b"]
    assert build.state == "passed"
