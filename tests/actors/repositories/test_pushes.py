"""Pushes to a real repository, and reports of them: each is built once, whatever comes first."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from actors.log_watchers import LogWatchers
from actors.repositories import heads_at
from actors.repositories.commit_builds import CommitBuilds
from actors.repositories.pull_requests import PullRequestBuilds
from actors.repositories.pushes import PushBuilds
from actors.repositories.reruns import HostApprovals, Reruns
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from storage import Build, BuildSettings, BuildState, NewBuild, Repository, TooManyBuilds
from tests.actors.conftest import Host, discovery_in
from tests.git_repository import GitRepository

pytestmark = pytest.mark.sandbox

PIPELINE = """
import harmont as hm


@hm.pipeline("ci", triggers=[hm.push(branch="*"), hm.push(tag="*")])
def ci():
    return hm.scratch().sh("true", key="only", image="debian:12")
"""
NOTHING = "0" * 40
UNREAD = "its pipeline files cannot be read, and no pipeline that is known wants it"


class Pushed:
    """A connected repository that reports its pushes only when it is told to."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.storage = host, host.storage
        self.remote = GitRepository(folder)
        self.first = self.remote.commit("Begin", **{".hm__pipeline.py": PIPELINE})
        self.remote.push("main")
        self.organization_id = host.pipeline.organization_id
        settings, hosts = LiveSettings(host.settings), {"git": PlainGit(self.storage)}
        self.settings, self.watchers = settings.now.repositories, LogWatchers()
        root = host.engine.addresses.root
        commits = CommitBuilds(
            storage=self.storage,
            discovery=discovery_in(host.storage, host.providers, host.images, host.clock, settings),
            live_settings=settings,
            root=root,
            hosts=hosts,
        )
        self.pushes = PushBuilds(
            storage=self.storage,
            live_settings=settings,
            commits=commits,
            pull_requests=PullRequestBuilds(storage=self.storage, live_settings=settings, commits=commits, hosts=hosts),
            approvals=HostApprovals(storage=self.storage, commits=commits, hosts=hosts),
            reruns=Reruns(storage=self.storage, live_settings=settings, root=root, hosts=hosts),
            mirrors=folder / "mirrors",
            hosts=hosts,
            watchers=self.watchers,
        )
        self.names = count()

    def connect(self, *, heads: bool) -> None:
        """Connect the repository, with the heads that it has, or without, as if they could not be read."""
        url = str(self.remote.bare)
        connected = self.storage.repositories.connect(self.organization_id, url, "acme/web", 86_400)
        if heads:
            self.storage.repository_checks.record_heads(connected, heads_at(url, self.settings, None))

    @property
    def repository(self) -> Repository:
        (repository,) = self.storage.repositories.all()
        return repository

    def push(self, message: str = "Change", to: str = "main") -> str:
        """Commit and push; return the commit."""
        commit = self.remote.commit(message, a=str(next(self.names)))
        self.remote.push("--force", f"HEAD:{to}")
        return commit

    def report(self, *pushed: tuple[str, str, str]) -> None:
        """Receive the report of a push: the old and new commits of refs."""
        body = "".join(f"{old} {new} {ref}\n" for old, new, ref in pushed).encode()
        self.storage.deliveries.receive("git", "push", str(next(self.names)), self.repository, body)

    def look(self) -> list[tuple[str, str | None]]:
        """Look at the repository while it is due; return branch and commit of all builds, oldest first."""
        self.storage.repository_checks.hasten(self.repository.id)
        while due := self.storage.repository_checks.due(1):
            self.pushes.check(due[0])
        return [(each.branch, each.commit) for each in self.builds()]

    def builds(self) -> list[Build]:
        pipeline = self.storage.pipelines.by_slug(self.organization_id, "acme-web-ci")
        if pipeline is None:
            return []
        return list(reversed(self.storage.builds.page(pipeline.id, 100, None).rows))


@pytest.fixture
def pushed(host: Host, tmp_path: Path) -> Pushed:
    return Pushed(host, tmp_path / "git")


def test_a_push_right_after_connecting_is_built(pushed: Pushed):
    """Without any report, as of a repository that is only looked at."""
    pushed.connect(heads=True)
    second = pushed.push()
    assert pushed.look() == [("main", second)]


def test_the_first_push_to_an_empty_repository_is_built(pushed: Pushed):
    pushed.remote.git("-C", str(pushed.remote.bare), "update-ref", "-d", "refs/heads/main")
    pushed.connect(heads=True)
    pushed.remote.push("main")
    assert pushed.look() == [("main", pushed.first)]


@pytest.mark.parametrize("late", [True, False], ids=["after the first look", "before it"])
def test_a_push_that_is_reported_is_built_whenever_it_is_seen(pushed: Pushed, *, late: bool):
    """A report is of a push after connecting, whatever the first look took for the past."""
    pushed.connect(heads=False)
    second, third = pushed.push(), pushed.push()
    pushed.remote.git("tag", "--annotate", "v1", "--message", "One")
    pushed.remote.push("v1", "HEAD:topic")
    tag = pushed.remote.git("rev-parse", "v1")
    reports = [
        [(pushed.first, second, "refs/heads/main")],
        [(second, third, "refs/heads/main")],
        [(NOTHING, tag, "refs/tags/v1"), (NOTHING, third, "refs/heads/topic")],
    ]
    if late:
        assert pushed.look() == []
    for each in reports:
        pushed.report(*each)
    built = [("main", second), ("main", third), ("topic", third), ("v1", third)]
    assert sorted(pushed.look()) == sorted(built)
    for each in reports:
        pushed.report(*each)
    assert len(pushed.look()) == len(built), "a report that comes again builds nothing"


def test_what_was_there_before_is_not_built(pushed: Pushed):
    pushed.connect(heads=False)
    assert pushed.look() == []
    assert pushed.look() == []


def test_a_report_after_the_build_of_its_push_builds_nothing(pushed: Pushed):
    pushed.connect(heads=False)
    assert pushed.look() == []
    second = pushed.push()
    assert pushed.look() == [("main", second)]
    pushed.report((pushed.first, second, "refs/heads/main"))
    assert pushed.look() == [("main", second)]


def test_a_tag_of_a_commit_that_skips_builds_is_built(pushed: Pushed):
    """Release tools commit with the mark, so that only the tag is built."""
    pushed.connect(heads=True)
    release = pushed.push("chore(release): 1.0.0 [skip ci]")
    pushed.remote.git("tag", "v1.0.0")
    pushed.remote.git("tag", "--annotate", "v1", "--message", "One")
    pushed.remote.push("v1.0.0", "v1")
    assert sorted(pushed.look()) == [("v1", release), ("v1.0.0", release)]


def test_heads_that_go_and_come_between_two_looks_are_built(pushed: Pushed):
    pushed.connect(heads=True)
    topic = pushed.push(to="topic")
    pushed.look()
    again = pushed.push(to="topic")
    pushed.report((topic, NOTHING, "refs/heads/topic"))
    pushed.report((NOTHING, again, "refs/heads/topic"))
    pushed.remote.git("tag", "v1")
    pushed.remote.push("v1")
    pushed.look()
    moved = pushed.push("Other", to="topic")
    pushed.remote.git("tag", "--force", "v1")
    pushed.remote.push("--force", "v1")
    assert pushed.look() == [("topic", topic), ("topic", again), ("v1", again), ("topic", moved), ("v1", moved)]


def test_branches_that_are_pushed_at_once_are_all_built(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.remote.push(*(f"main:many/{number}" for number in range(6)))
    assert sorted(pushed.look()) == [(f"many/{number}", pushed.first) for number in range(6)]


@pytest.mark.parametrize(
    ("files", "message", "outcome"),
    [
        ({}, "Change", "1 build: acme-web-ci #1"),
        ({}, "Change [skip ci]", "0 builds: the message of its commit says [skip ci] or [ci skip]"),
        (
            {".hm__pipeline.py": PIPELINE.replace('branch="*"', 'branch="release"')},
            "Change",
            '0 builds: no pipeline has a trigger for the branch "main"; it declares ci',
        ),
        (
            {".hm__pipeline.py": PIPELINE.replace('key="only"', 'key="only", runner_args={"paths": ["src"]}')},
            "Change",
            "0 builds: none of the changed files is among the paths of its pipelines' steps",
        ),
        ({".hm__pipeline.py": ""}, "Change", "0 builds: it declares no pipeline in .hm/*.py"),
        (
            {".hm__pipeline.py": "raise ValueError('no such luck')"},
            "Change",
            f"0 builds: {UNREAD}: ValueError: no such luck",
        ),
    ],
    ids=["built", "skipped", "no trigger", "paths", "no pipeline", "unreadable"],
)
def test_what_came_of_a_push_is_kept(pushed: Pushed, files: dict[str, str], message: str, outcome: str):
    """A push that makes no build says why, as does the delivery that reports it."""
    pushed.connect(heads=True)
    commit = pushed.remote.commit(message, **files)
    pushed.remote.push("main")
    pushed.report((pushed.first, commit, "refs/heads/main"))
    pushed.look()
    (kept,) = pushed.storage.push_outcomes.latest(pushed.repository.id, 10)
    assert (kept.name, kept.commit, kept.outcome) == ("main", commit, outcome)
    assert kept.pages.splitlines() == [each.page for each in pushed.builds()]
    (delivery,) = pushed.storage.deliveries.latest(10)
    assert delivery.outcome == f"refs/heads/main: {outcome}"


def test_a_tree_of_typescript_alone_is_named_in_the_outcome(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.remote.git("rm", "--quiet", ".hm/pipeline.py")
    pushed.remote.commit("Other", **{".hm__ci.ts": "export default pipeline();"})
    pushed.remote.push("main")
    assert pushed.look() == []
    (kept,) = pushed.storage.push_outcomes.latest(pushed.repository.id, 10)
    assert "TypeScript or JavaScript alone, such as 'ci.ts'" in kept.outcome


def test_a_deleted_branch_is_told_from_one_that_was_built(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.remote.push("main:topic")
    pushed.look()
    pushed.remote.push(":topic")
    pushed.report((pushed.first, NOTHING, "refs/heads/topic"))
    pushed.report((NOTHING, "c" * 40, "refs/heads/never-seen"))
    pushed.look()
    told = [each.outcome for each in pushed.storage.deliveries.latest(10)]
    assert told == [
        "refs/heads/never-seen: 0 builds: it was known already, or has moved on",
        "refs/heads/topic: 0 builds: it was deleted",
    ]


def test_who_waits_for_a_push_is_woken_by_its_outcome(pushed: Pushed):
    pushed.connect(heads=True)
    with pushed.watchers.watch(pushed.repository.uuid) as watch:
        pushed.push("Fix [skip ci]")
        pushed.look()
        assert watch.wait(0)


def test_a_push_waits_while_too_many_builds_have_not_ended(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.storage.build_room.settings = BuildSettings(max_unfinished=1)
    waiting = pushed.storage.builds.create_unplanned(pushed.host.pipeline, NewBuild("main", "c0ffee"))
    second = pushed.push()
    pushed.report((pushed.first, second, "refs/heads/main"))
    why = "1 builds of the organization have not ended, of 1 at most: pushes are built when some have ended"
    with pytest.raises(TooManyBuilds, match=why):
        pushed.look()
    assert [each.processed_at for each in pushed.storage.deliveries.latest(1)] == [None]
    assert pushed.builds() == []
    pushed.storage.builds.move(waiting.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert pushed.look() == [("main", second)]
