"""Commits of a few objects with 10,000,000,000 paths: git works on them without end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.messages import PollStorage
from actors.repositories.fetching import git
from actors.repositories.fetching.git import CommitRefused, LimitReached
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.packing.packing import pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from tests.actors.repositories.test_watcher import Watched
from tests.actors.repositories.world import World
from tests.git_repository import GitRepository
from tests.records import new_owner
from tests.waiting import until

LEVELS, ENTRIES = 10, 10
MAIN = "refs/heads/main"
LOW = RepositorySettings(git_memory_mb=48, git_cpu_seconds=10)


def bomb(remote: GitRepository, *, files: bool = True) -> str:
    """Return a commit of ten trees, each with ten times the next one.

    The last one has files, or empty folders.
    """
    mode, kind = ("100644", "blob") if files else ("040000", "tree")
    found = remote.git("hash-object", "-w", "--stdin", data=b"") if files else remote.git("mktree", data=b"")
    for _ in range(LEVELS):
        entries = "".join(f"{mode} {kind} {found}\t{number}\n" for number in range(ENTRIES))
        found = remote.git("mktree", data=entries.encode())
        mode, kind = "040000", "tree"
    return remote.git("commit-tree", found, "-m", "Many paths")


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    remote = GitRepository(tmp_path / "remote")
    remote.commit("Begin")
    remote.push("main")
    return remote


def mirror_of(tmp_path: Path, remote: GitRepository, **settings: int) -> Mirror:
    mirror = Mirror(tmp_path / "mirror", str(remote.bare), RepositorySettings(**settings))
    mirror.fetch()
    return mirror


def test_a_commit_that_takes_much_memory_is_refused(tmp_path: Path, remote: GitRepository):
    commit = bomb(remote)
    remote.push("--force", f"{commit}:{MAIN}")
    mirror = mirror_of(tmp_path, remote, git_memory_mb=32)

    with pytest.raises(CommitRefused, match=r"took more than 32 MB of memory: raise repositories\.git_memory_mb"):
        pack_commit(mirror, MAIN, commit, SourceSettings())

    assert mirror.changed(remote.git("rev-parse", "main"), commit) is None


def test_a_commit_that_takes_much_time_is_refused(tmp_path: Path, remote: GitRepository):
    commit = bomb(remote, files=False)
    remote.push("--force", f"{commit}:{MAIN}")
    mirror = mirror_of(tmp_path, remote, git_cpu_seconds=1)

    with pytest.raises(CommitRefused, match=r"took more than 1 s of CPU time: raise repositories\.git_cpu_seconds"):
        pack_commit(mirror, MAIN, commit, SourceSettings())


def test_the_message_of_a_costly_commit_is_cheap(tmp_path: Path, remote: GitRepository):
    commit = bomb(remote)
    remote.push("--force", f"{commit}:{MAIN}")

    assert mirror_of(tmp_path, remote, git_cpu_seconds=1).commit(commit).message == "Many paths"


def test_a_commit_of_which_git_prints_much_is_refused(
    tmp_path: Path, remote: GitRepository, monkeypatch: pytest.MonkeyPatch
):
    """A part of a list is not taken for the whole, however soon git has printed all."""
    commit = remote.commit("Files", **{f"file{number}": "" for number in range(100)})
    remote.push("main")
    mirror = mirror_of(tmp_path, remote)
    listing = mirror.run("ls-tree", "-r", commit)
    monkeypatch.setattr(git, "_MAX_OUTPUT", len(listing))
    assert mirror.run("ls-tree", "-r", commit) == listing
    monkeypatch.setattr(git, "_MAX_OUTPUT", len(listing) - 1)

    with pytest.raises(CommitRefused, match="git ls-tree printed more than 0 MiB"):
        mirror.run("ls-tree", "-r", commit)


def test_a_fetch_that_takes_much_memory_is_ended(tmp_path: Path, remote: GitRepository):
    remote.commit("Large", large="x" * (40 << 20))
    remote.push("main")
    mirror = Mirror(tmp_path / "mirror", str(remote.bare), RepositorySettings(git_memory_mb=32))

    with pytest.raises(LimitReached, match=r"raise repositories\.git_memory_mb"):
        mirror.fetch()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, LOW)
    world.check()
    yield world
    world.storage.close()


def test_a_costly_pull_request_fails_and_is_not_tried_again(world: World):
    commit = bomb(world.remote)
    world.arrive(commit)
    world.report(commit)

    assert world.check() == [commit]
    build = world.storage.builds.page(world.pipeline.id, 1, None).rows[0]
    assert "raise repositories.git_memory_mb" in str(build.error_message)
    assert world.reported().processed_at is not None


@pytest.fixture
def watched(world: World) -> Iterator[Watched]:
    watched = Watched(world)
    yield watched
    watched.address.stop()


@contextmanager
def stuck(bare: Path) -> Iterator[None]:
    """Let git wait for the refs of a repository, then find none."""
    refs = bare / "packed-refs"
    os.mkfifo(refs)
    try:
        yield
    finally:
        writer = os.open(refs, os.O_RDWR)
        refs.unlink()
        os.close(writer)


def test_slow_repositories_hold_up_no_other_organization(world: World, watched: Watched, tmp_path: Path):
    """Six repositories of one organization are due before that of another, which is built meanwhile."""
    checks, slow = world.storage.repository_checks, GitRepository(tmp_path / "slow")
    slow.push(f"{bomb(slow)}:{MAIN}")
    until(watched.is_due, "the watcher's begin")
    world.check()
    organization_id = new_owner(world.storage, "eve@example.org", "Eve").organization.id
    theirs = set()
    for number in range(6):
        url = tmp_path / f"{number}.git"
        url.symlink_to(slow.bare)
        theirs.add(world.storage.repositories.connect(organization_id, str(url), f"eve/{number}", 86_400).id)
    change = world.remote.commit("Change")
    world.arrive(change)
    world.clock.advance(1)
    world.report(change)

    with stuck(slow.bare):
        watched.address.ask(PollStorage())
        until(lambda: {each.id for each in checks.due(100)} == theirs, "the other organization's check")

    assert world.built() == [change]
