"""Pull requests that are built as they would be merged, also again when their target has moved."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.render.envelope import MergeConflicts, RenderFailed
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.merging import Merge, conflict_of, merged
from actors.repositories.settings import RepositorySettings
from actors.source_hosts.host import FOUND_OPEN
from storage import Build, MergeAgain, PullRequestBuild
from tests.actors.repositories.world import World

_DEFAULTS = RepositorySettings()
SKIP = "Not built by itself [skip ci]"


class Merging(World):
    """A world whose pull requests are built merged."""

    def __init__(self, folder: Path, repositories: RepositorySettings = _DEFAULTS) -> None:
        super().__init__(folder, repositories)
        self.check()
        self.connect_at_host()
        self.set()
        self.begin = self.remote.git("rev-parse", "main")

    def set(self, pull_requests: str = "merged", merge_again: str = "never") -> None:
        self.repository = self.storage.repositories.edit(
            self.repository, pull_requests=PullRequestBuild(pull_requests), merge_again=MergeAgain(merge_again)
        )

    def topic(self, number: int = 1, **files: str) -> str:
        """Return the head of a pull request that begins at the first commit of main."""
        self.remote.git("checkout", "--quiet", "--detach", self.begin)
        head = self.remote.commit("Topic", **files)
        self.arrive(head, number)
        return head

    def move(self, **files: str) -> str:
        """Push a commit to main; return it."""
        self.remote.git("checkout", "--quiet", "main")
        commit = self.remote.commit(SKIP, **files)
        self.remote.push("main")
        self.storage.repository_checks.hasten(self.repository.id)
        return commit

    def builds(self) -> list[Build]:
        """Return the builds, oldest first."""
        return list(reversed(self.storage.builds.page(self.pipeline.id, 100, None).rows))

    def files(self, build: Build) -> dict[str, bytes]:
        """Return the files of a build's source."""
        with tarfile.open(fileobj=io.BytesIO(self.storage.sources.path(build.uuid).read_bytes())) as tar:
            found = {each.name: tar.extractfile(each) for each in tar if each.isreg()}
            return {name: file.read() for name, file in found.items() if file is not None}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Merging]:
    world = Merging(tmp_path)
    yield world
    world.storage.close()


def test_a_head_is_built_as_it_would_be_merged(world: Merging, tmp_path: Path):
    """It names both commits; the merge is their third, and stays out of the mirror."""
    head, base = world.topic(a="1"), world.move(b="2")
    world.report(head)
    assert world.check() == [head]
    (build,) = world.builds()
    assert (build.commit, build.base_commit) == (head, base)
    assert build.merge_commit not in {None, head, base}
    files = world.files(build)
    assert (files["a"], files["b"]) == (b"1", b"2")
    assert files[".git/HEAD"].decode().strip() == build.merge_commit
    env = world.storage.builds.env(build.id)
    assert (env["CI_BASE_COMMIT"], env["CI_MERGE_COMMIT"]) == (base, build.merge_commit)
    mirror = Mirror(tmp_path / "mirrors" / world.repository.uuid, world.repository.url, RepositorySettings())
    assert mirror.has(base)
    assert not mirror.has(build.merge_commit or "")
    assert not mirror.has(head)


def test_by_default_the_head_itself_is_built(world: Merging):
    world.set("head")
    head = world.topic(a="1")
    world.move(b="2")
    world.report(head)
    world.check()
    (build,) = world.builds()
    assert (build.base_commit, build.merge_commit) == (None, None)
    assert world.files(build)[".git/HEAD"].startswith(b"ref: ") or "b" not in world.files(build)


def test_a_conflict_fails_the_build_with_its_words(world: Merging):
    head, base = world.topic(a="1", c="1"), world.move(a="2")
    world.report(head)
    world.check()
    (build,) = world.builds()
    assert (build.state, build.error_code, build.commit, build.base_commit) == ("failed", "merge_conflict", head, base)
    assert build.error_message == 'conflicts with main in "a": merge main into it, or rebase it, and push'
    assert (build.merge_commit, build.has_source) == (None, False)


@pytest.mark.parametrize(
    ("setting", "labels", "again"),
    [("never", ("rebuild",), 1), ("labelled", (), 1), ("labelled", ("rebuild",), 2), ("always", (), 2)],
)
def test_a_moved_target_is_merged_again_by_setting(world: Merging, setting: str, labels: tuple[str, ...], again: int):
    world.set(merge_again=setting)
    head = world.topic(a="1")
    world.report(head)
    world.check()
    world.host.open = [replace(world.change(head, 1, FOUND_OPEN), labels=labels)]
    moved = world.move(b="2")
    world.check()
    bases = [each.base_commit for each in world.builds()]
    assert bases == [world.begin, moved][:again]
    world.storage.repository_checks.hasten(world.repository.id)
    world.check()
    assert len(world.builds()) == again


def test_a_merge_has_one_name_however_often_it_is_made(world: Merging, tmp_path: Path):
    """So what was built is what is merged later, or the merge has another name."""
    head, base = world.topic(a="1"), world.move(b="2")
    names = set()
    for folder in ("one", "two"):
        mirror = Mirror(tmp_path / folder, world.repository.url, RepositorySettings())
        mirror.fetch()
        mirror.fetch_ref("refs/pull/1/head")
        names.add(Merge(base, "main", head, "Merge").make(mirror))
    assert len(names) == 1


def test_of_many_conflicts_the_first_are_named(world: Merging, tmp_path: Path):
    files = dict.fromkeys("abcde", "1")
    head, base = world.topic(**files), world.move(**dict.fromkeys(files, "2"))
    with pytest.raises(MergeConflicts, match='in "a", "b", "c" and 2 more: merge'):
        merged(limited(world, tmp_path), base, "main", head, "Merge")


def test_millions_of_conflicts_are_counted_alone():
    """To make texts of all would keep other threads from the interpreter for seconds."""
    printed = b"0" * 40 + b"\0" + b"a/b/c/d\0" * 2_000_000
    tracemalloc.start()
    try:
        told = conflict_of("main", printed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told.endswith("and 1999997 more: merge main into it, or rebase it, and push")
    assert peak < 2 * len(printed)


def limited(world: Merging, tmp_path: Path, **settings: Any) -> Mirror:
    mirror = Mirror(tmp_path / "mirror", world.repository.url, RepositorySettings())
    mirror.fetch()
    mirror.fetch_ref("refs/pull/1/head")
    return Mirror(tmp_path / "mirror", world.repository.url, RepositorySettings(**settings))


def test_a_merge_that_reaches_a_limit_is_no_conflict(world: Merging, tmp_path: Path):
    head, base = world.topic(a="1"), world.move(b="2")
    with pytest.raises(RenderFailed, match="merge failed") as failed:
        merged(limited(world, tmp_path, git_memory_mb=1), base, "main", head, "Merge")
    assert not isinstance(failed.value, MergeConflicts)


def test_what_has_no_base_or_no_common_commit_conflicts(world: Merging, tmp_path: Path):
    head = world.topic(a="1")
    world.remote.git("checkout", "--quiet", "--orphan", "alone")
    alone = world.remote.commit("Alone", z="1")
    world.remote.push("alone")
    mirror = limited(world, tmp_path)
    with pytest.raises(MergeConflicts, match='there is no branch "main" any more'):
        merged(mirror, None, "main", head, "Merge")
    with pytest.raises(MergeConflicts, match="they have no commit in common"):
        merged(mirror, alone, "alone", head, "Merge")
