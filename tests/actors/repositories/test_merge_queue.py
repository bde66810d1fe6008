"""Merge queues of real repositories: what is built on what, what lands, and what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.render.envelope import DeclaredPipeline, Envelope
from actors.repositories.commit_builds import CommitBuilds
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.settings import RepositorySettings
from actors.source_hosts.host import FOUND_OPEN, PullRequest
from storage import Build, BuildState, MergeState, NewBuild, NewMerge, NewOrigin, OriginEvent, QueuedMerge
from tests.actors.repositories.test_merged_pull_requests import Merging
from tests.e2e.pipelines import one
from tests.records import new_job

_DEFAULTS = RepositorySettings()
PULL_REQUESTS: tuple[Any, ...] = ({"event": "pull_request", "branches": ["main"]},)


class Queue(Merging):
    """A repository with branches that are queued; its pipeline is known without a VM."""

    def __init__(self, folder: Path, repositories: RepositorySettings = _DEFAULTS) -> None:
        super().__init__(folder, repositories)
        self.triggers = PULL_REQUESTS

    def declared(self, *_: object, **__: object) -> Envelope:
        return Envelope((DeclaredPipeline("ci", "ci", True, self.triggers, json.loads(one("true"))),))

    def branch(self, name: str, **files: str) -> str:
        """Push a branch that begins at the first commit of main; return its head."""
        self.remote.git("checkout", "--quiet", "--detach", self.begin)
        head = self.remote.commit(f"Work on {name} [skip ci]", **(files or {name: name}))
        self.remote.push("--force", f"HEAD:refs/heads/{name}")
        return head

    def add(self, *names: str) -> list[QueuedMerge]:
        """Queue branches, which are made."""
        for each in names:
            self.branch(each)
        return [self.storage.merge_queues.add(self.repository, NewMerge(branch=each), "ann") for each in names]

    def look(self) -> None:
        self.storage.repository_checks.hasten(self.repository.id)
        self.check()

    def now(self, entry: QueuedMerge) -> QueuedMerge:
        found = self.storage.merge_queues.get(entry.id)
        assert found is not None
        return found

    def states(self, entries: list[QueuedMerge]) -> list[str]:
        return [self.now(each).state.value for each in entries]

    def build(self, entry: QueuedMerge) -> Build:
        (build,) = self.storage.merge_queues.builds(self.now(entry))
        return build

    def end(self, entry: QueuedMerge, state: BuildState = BuildState.PASSED) -> None:
        self.storage.builds.move(self.build(entry).id, BuildState.SCHEDULED, state)

    @property
    def main(self) -> str:
        return self.remote.git("ls-remote", "origin", "refs/heads/main").split("\t")[0]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    queue = Queue(tmp_path)
    monkeypatch.setattr(CommitBuilds, "declared", queue.declared)
    yield queue
    queue.storage.close()


def test_candidates_are_built_on_those_before_and_land_in_order(queue: Queue):
    entries = queue.add("a", "b", "c", "d")
    queue.look()
    a, b, c, d = (queue.now(each) for each in entries)
    assert [a.base_commit, b.base_commit, c.base_commit] == [queue.begin, a.merge_commit, b.merge_commit]
    assert (d.state, d.reason) == (MergeState.QUEUED, "it waits for its turn")
    assert {"a", "b", "c"} < queue.files(queue.build(c)).keys()
    build = queue.build(b)
    assert (build.commit, build.base_commit, build.merge_commit) == (b.head, a.merge_commit, b.merge_commit)
    queue.end(b)
    queue.look()
    assert (queue.main, queue.states(entries)) == (queue.begin, ["building", "building", "building", "queued"])
    queue.end(a)
    queue.look()
    assert queue.main == b.merge_commit
    assert queue.states(entries) == ["landed", "landed", "building", "building"]
    assert queue.now(c).merge_commit == c.merge_commit, "it was built again for nothing"
    assert queue.now(d).base_commit == c.merge_commit


def test_a_bad_one_is_thrown_out_and_what_is_behind_built_again(queue: Queue):
    entries = queue.add("a", "b", "c")
    queue.look()
    a, b, c = entries
    before = queue.build(c)
    queue.end(b, BuildState.FAILED)
    queue.look()
    assert queue.states(entries) == ["building", "building", "building"]
    assert queue.now(b).reason.startswith(f"{queue.build(b).name} failed on top of those before it")
    assert queue.now(c).base_commit == queue.now(a).merge_commit
    again = queue.storage.builds.get(before.id)
    assert again is not None
    assert again.cancel_requested, "what stood on the bad one is built on"
    queue.end(c)
    queue.end(a)
    queue.look()
    assert queue.states(entries) == ["landed", "thrown_out", "landed"]
    assert queue.now(b).reason == f"{queue.build(b).name} failed"
    assert queue.main == queue.now(c).merge_commit
    queue.remote.git("fetch", "--quiet", "origin", "main")
    assert queue.remote.git("ls-tree", "--name-only", "FETCH_HEAD").split() == ["a", "c"]


def test_one_that_conflicts_waits_for_those_before_it(queue: Queue):
    entries = queue.add("a", "b")
    queue.branch("b", a="another")
    queue.look()
    a, b = entries
    assert queue.states(entries) == ["building", "queued"]
    assert queue.now(b).reason.startswith("it conflicts on top of those before it")
    queue.end(a)
    queue.look()
    assert queue.states(entries) == ["landed", "thrown_out"]
    assert queue.now(b).reason.startswith('conflicts with main in "a"')


def test_only_the_commit_that_was_built_lands(queue: Queue):
    """A target that moves, a head that moves, and a merge that somebody put into the row."""
    (a,) = queue.add("a")
    queue.look()
    built = queue.now(a).merge_commit
    queue.end(a)
    moved = queue.move(other="1")
    queue.look()
    assert (queue.main, queue.states([a])) == (moved, ["building"])
    assert queue.now(a).base_commit == moved
    assert queue.now(a).merge_commit != built
    forged = queue.branch("evil", evil="1")
    queue.storage.merge_queues.build(queue.now(a), moved, forged)
    queue.look()
    assert queue.main == moved
    assert queue.now(a).merge_commit != forged
    queue.end(a)
    head = queue.branch("a", a="2")
    queue.look()
    assert (queue.main, queue.states([a])) == (moved, ["left"])
    assert queue.now(a).reason == f"its head is another commit now, {head}: add it again"


def test_a_push_that_comes_between_is_not_lost(queue: Queue, monkeypatch: pytest.MonkeyPatch):
    """The target moves after the look at it, at the last moment before the merge is pushed."""
    (a,) = queue.add("a")
    queue.look()
    queue.end(a)
    push, moved = Mirror.push, []

    def late(*arguments: Any, **named: Any) -> bool:
        moved.append(queue.move(other="1"))
        monkeypatch.setattr(Mirror, "push", push)
        return push(*arguments, **named)

    monkeypatch.setattr(Mirror, "push", late)
    queue.look()
    assert queue.main == moved[0]
    queue.look()
    assert queue.states([a]) == ["building"]
    queue.end(a)
    queue.look()
    assert queue.states([a]) == ["landed"]


def test_a_push_that_was_the_last_thing_before_a_crash_counts(queue: Queue, monkeypatch: pytest.MonkeyPatch):
    entries = queue.add("a", "b")
    queue.look()
    for each in entries:
        queue.end(each)
    push = Mirror.push

    def killed(*arguments: Any, **named: Any) -> bool:
        assert push(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(Mirror, "push", killed)
    with pytest.raises(KeyboardInterrupt):
        queue.look()
    monkeypatch.setattr(Mirror, "push", push)
    assert queue.states(entries) == ["building", "building"]
    queue.look()
    assert queue.states(entries) == ["landed", "landed"]
    assert queue.main == queue.now(entries[1]).merge_commit


def test_a_host_that_refuses_the_push_is_said(queue: Queue):
    (a,) = queue.add("a")
    queue.look()
    queue.end(a)
    with (queue.remote.bare / "config").open("a") as config:
        config.write("[receive]\n\tmaxInputSize = 1\n")
    queue.look()
    assert queue.states([a]) == ["thrown_out"]
    assert "give the token or deploy key the right to push there" in queue.now(a).reason
    assert queue.main == queue.begin


def test_what_nothing_tests_does_not_land(queue: Queue):
    queue.triggers = ({"event": "push", "branches": ["main"]},)
    (a,) = queue.add("a")
    queue.look()
    assert queue.states([a]) == ["thrown_out"]
    assert queue.now(a).reason.startswith("nothing tests it")
    queue.triggers = ({"event": "push", "branches": ["main", "merge-queue/*"]},)
    (b,) = queue.add("b")
    queue.look()
    assert queue.states([b]) == ["building"]


def test_a_pull_request_is_queued_by_its_number(queue: Queue):
    head = queue.branch("topic")

    def opened(number: int, **fields: Any) -> PullRequest:
        known = {
            "from_fork": False,
            "head_ref": "refs/heads/topic",
            "author": "ann",
            "title": "T",
            "action": FOUND_OPEN,
        }
        common = {"number": number, "head_commit": head, "url": queue.repository.url, "branch": "topic"}
        return PullRequest(**{"target_branch": "main", **known, **common, **fields})

    queue.host.open = [opened(7), opened(8, from_fork=True)]
    own, fork, gone = (
        queue.storage.merge_queues.add(queue.repository, NewMerge(pull_request=each), "ann") for each in (7, 8, 9)
    )
    queue.look()
    assert queue.states([own, fork, gone]) == ["building", "thrown_out", "left"]
    assert (queue.now(own).name, queue.now(own).target, queue.now(own).head) == ("topic (#7)", "main", head)
    queue.end(own)
    queue.host.open = []
    queue.look()
    assert (queue.states([own]), queue.main) == (["left"], queue.begin)


def test_builds_of_another_repository_let_nothing_land(queue: Queue):
    """Commits have the same names everywhere: those of a copy must not count."""
    (a,) = queue.add("a")
    queue.look()
    mine, build = queue.now(a), queue.build(a)
    other = queue.storage.repositories.connect(queue.repository.organization_id, "/srv/copy.git", "eve/copy", 60)
    new = NewBuild("x", mine.head or "", merge_commit=mine.merge_commit, base_commit=mine.base_commit)
    theirs = queue.storage.builds.create(queue.pipeline, new, [new_job()])
    queue.storage.build_origins.record(theirs.id, NewOrigin(other.id, OriginEvent.PUSH, mine.ref), reports=False)
    queue.storage.builds.move(theirs.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert queue.storage.merge_queues.builds(mine) == [build]
    queue.pushes.check(queue.repository)
    assert queue.main == queue.begin
