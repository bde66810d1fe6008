"""Pull requests from real repositories, also from hostile forks: what is built of them, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors import wait_reason
from actors.repositories.commit_builds import CommitBuilds, CommitParts
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.pull_requests import HeadUnavailable, PullRequestBuilds
from actors.repositories.reruns import HostApprovals
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from actors.source_hosts.host import FOUND_OPEN, RETARGETED, ApprovalGiven, HostError, PullRequest
from actors.vms import VmError
from storage import (
    Build,
    BuildState,
    CancelSuperseded,
    Declaration,
    DeclaringRepository,
    ForkApproval,
    JobState,
    Pipeline,
    SecretScope,
)
from tests.actors.conftest import Host, discovery_in
from tests.git_repository import GitRepository
from tests.waiting import until

pytestmark = pytest.mark.sandbox

LOOK = "echo $CI_BRANCH $CI_TARGET_BRANCH $CI_PULL_REQUEST ${TOKEN-unset}; git log --format=%s -1; sleep ${LONG-0}"
TRIGGERS = ({"event": "pull_request", "branches": ["main"]},)


def pipeline_file(*slugs: str, event: str = 'hm.pull_request(branches="main")', args: str = "") -> dict[str, str]:
    """Return the pipeline file of a commit, by its name for `GitRepository.commit`."""
    text = "import harmont as hm\n" + "".join(
        f'@hm.pipeline("{slug}", triggers=[{event}])\ndef {slug}():\n'
        f'    return hm.scratch().sh({LOOK!r}, key="only", label="look", image="debian:12",'
        f' runner_args={{"secrets": ["TOKEN"]{args}}})\n'
        for slug in slugs
    )
    return {".hm__pipeline.py": text}


class World:
    """A connected repository that declares a pipeline, with pull requests as ``refs/pull/N/head``."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.storage = host.storage
        self.remote = GitRepository(folder)
        self.remote.commit("Begin", **pipeline_file("ci"))
        self.remote.push("main")
        organization_id = host.pipeline.organization_id
        self.repository = self.storage.repositories.connect(organization_id, str(self.remote.bare), "acme/web", 60)
        declaration = Declaration("ci", allow_manual=True, triggers=TRIGGERS)
        self.pipeline = self.storage.declarations.register(
            DeclaringRepository(organization_id, "acme/web", "acme/web"), "ci", "main", declaration
        )
        self.storage.secrets.put(SecretScope(organization_id), "TOKEN", "hunter2-and-a-half")
        self.live_settings = LiveSettings(host.settings)
        self.writers = {"ann"}
        hosts = {"git": _Host(self.storage, self.writers)}
        parts = CommitParts(
            storage=self.storage,
            clock=host.clock,
            discovery=discovery_in(host.storage, host.providers, host.images, host.clock, self.live_settings),
            live_settings=self.live_settings,
            root=host.engine.addresses.root,
            hosts=hosts,
        )
        commits = CommitBuilds(parts)
        self.pull_requests = PullRequestBuilds(parts, commits)
        self.approvals = HostApprovals(parts, commits)
        self.mirror = Mirror(folder / "mirror", self.repository.url, self.live_settings.now.repositories)

    def configure(self, **changes: Any) -> None:
        now = self.live_settings.now
        self.live_settings.now = replace(now, repositories=replace(now.repositories, **changes))

    def head(self, number: int = 1, message: str = "Change", **files: str) -> str:
        """Commit to a pull request; return its head."""
        commit = self.remote.commit(message, **files)
        self.remote.push("--force", f"HEAD:refs/pull/{number}/head")
        return commit

    def report(self, commit: str, number: int = 1, **fields: Any) -> None:
        """Process a report of the host that a pull request has a head."""
        change: dict[str, Any] = {
            "action": "opened",
            "title": "Change",
            "head_ref": f"refs/pull/{number}/head",
            "url": self.repository.url,
            "branch": "topic",
            "target_branch": "main",
            "from_fork": False,
            "author": "ann",
        }
        heads = self.mirror.fetch()
        event = PullRequest(number=number, head_commit=commit, **change | fields)
        self.pull_requests.build(self.mirror, self.repository, heads, event)

    def fork(self, commit: str, number: int = 1, **fields: Any) -> None:
        """Process a report of a stranger's pull request from a fork."""
        self.report(commit, number, **{"from_fork": True, "author": "eve"} | fields)

    def builds(self, pipeline: Pipeline | None = None) -> list[Build]:
        """Return the pipeline's builds, oldest first."""
        page = self.storage.builds.page((pipeline or self.pipeline).id, 100, None)
        return list(reversed(page.rows))

    def only(self) -> Build:
        (build,) = self.builds()
        return build


class _Host(PlainGit):
    """A host at which some may push; it does not answer about "unknown"."""

    def __init__(self, storage: Any, writers: set[str]) -> None:
        super().__init__(storage)
        self.writers = writers

    def trusts(self, repository: object, login: str) -> bool:
        if login == "unknown":
            raise HostError("the host is away")
        return login in self.writers


@pytest.fixture
def world(host: Host, tmp_path: Path) -> World:
    return World(host, tmp_path / "git")


def test_a_pull_request_is_built_once_for_each_commit(world: World):
    first = world.head(a="1")
    world.report(first)
    world.report(first, action="reopened")
    build = world.host.finish(world.only())
    assert (build.state, build.branch, build.commit) == (BuildState.PASSED, "topic", first)
    assert world.host.log(build) == b"topic main 1 ***\nChange\n"
    origin = world.storage.build_origins.get(build.id)
    assert origin is not None
    assert (origin.pull_request, origin.target_branch, origin.actor) == (1, "main", "ann")
    assert (build.untrusted, build.from_fork) == (False, False)
    world.report(world.head(message="Two", a="2"), action="synchronize")
    world.report(world.head(message="No [skip ci]", a="3"), action="synchronize")
    world.report(world.head(message="Other", a="4"), target_branch="dev")
    assert [each.message for each in world.builds()] == ["Change", "Two"]
    assert not list(world.mirror.folder.glob("borrowed-*"))
    assert not world.mirror.has(first)


def test_a_pull_request_that_is_not_built_is_told_as_skipped(world: World, monkeypatch: pytest.MonkeyPatch):
    """By its target or its message; but a fork's message passes no required check."""
    told: dict[str, str] = {}
    monkeypatch.setattr(_Host, "reports", True)
    monkeypatch.setattr(PlainGit, "report_skip", lambda _, __, skip: told.setdefault(skip.commit, skip.reason))
    by_target = world.head(a="1")
    world.report(by_target, target_branch="dev")
    by_message = world.head(message="No [skip ci]", a="2")
    world.report(by_message, action="synchronize")
    world.fork(world.head(message="Mine [skip ci]", a="3"))
    assert world.builds() == []
    until(lambda: len(told) > 1, "the reports")
    assert told == {
        by_target: 'it has no trigger for a pull request to "dev" that is opened',
        by_message: "the message of its commit says [skip ci] or [ci skip]",
    }


def test_a_strangers_fork_is_not_even_rendered_before_approval(world: World):
    commit = world.head(**pipeline_file("ci", "more", event='hm.push(branch="main")'))
    world.fork(commit, branch="main")
    build = world.only()
    assert (build.branch, build.untrusted) == ("eve:main", True)
    assert (build.verified_event, build.verified_ref) == ("pull_request", "refs/pull/1/head")
    reason = "waiting for approval: eve may not push to acme/web"
    assert wait_reason(world.storage, build) == reason
    world.host.restart()
    assert world.storage.renders.due() == []
    assert not [lease for lease in world.storage.leases.live() if lease.build_id == build.id]
    assert world.storage.jobs.of_build(build.id) == []
    world.host.drain()
    world.storage.approvals.approve(build.id, "ann@example.org")
    assert [each.build_id for each in world.storage.renders.due()] == [build.id]


def test_a_fork_that_needs_no_approval_is_untrusted_all_the_same(world: World):
    world.configure(fork_approval="never")
    world.fork(world.head(a="1"), branch="main")
    build = world.host.finish(world.only())
    assert (build.state, build.branch) == (BuildState.PASSED, "eve:main")
    told = b"this build is of a pull request from a fork, so it runs without its secrets: TOKEN\n"
    assert world.host.log(build) == told + b"eve:main main 1 unset\nChange\n"


def test_an_approval_is_of_one_commit(world: World):
    world.fork(world.head(a="1"))
    first = world.only()
    world.storage.approvals.approve(first.id, "ann@example.org")
    world.fork(world.head(a="2"), action="synchronize")
    world.fork(world.head(a="3"), action="synchronize")
    _, second, third = world.builds()
    assert world.host.finish(second).error_message == f"build {third.number} is of a newer commit"
    assert wait_reason(world.storage, third) is not None


POLICIES: list[tuple[str, str | None, str | None, bool | None, bool]] = [
    ("strangers", "eve", None, None, True),
    ("strangers", "ann", None, None, False),
    ("strangers", "ann", "ann", None, False),
    ("strangers", "ann", "eve", None, True),
    ("strangers", "bob", "ann", True, False),
    ("strangers", "bob", "eve", True, True),
    ("strangers", "ann", None, False, True),
    ("strangers", "unknown", None, None, True),
    ("strangers", None, "ann", None, True),
    ("always", "ann", None, True, True),
    ("never", "eve", None, False, False),
]
"""The policy, author and sender, whether the report trusts the author, and whether the build waits."""


def test_who_needs_an_approval_is_a_setting(world: World):
    commit = world.head(a="1")
    for number, (policy, author, sender, trusted, waits) in enumerate(POLICIES, 2):
        world.remote.push(f"HEAD:refs/pull/{number}/head")
        world.configure(fork_approval="never" if waits else "always")
        world.storage.organizations.configure(world.pipeline.organization_id, fork_approval=ForkApproval(policy))
        world.fork(commit, number, author=author, sender=sender, trusted=trusted)
        build = world.builds()[-1]
        assert (wait_reason(world.storage, build) is not None) is waits, (policy, author, sender, trusted)
        assert build.untrusted
    assert len(world.builds()) == len(POLICIES)


def test_a_push_to_a_fork_by_nobody_known_needs_approval(world: World):
    world.fork(world.head(a="1"), author="ann", action="synchronize")
    assert wait_reason(world.storage, world.only()) is not None
    world.fork(world.head(2, a="2"), 2, author="ann", action="synchronize", sender="ann")
    assert wait_reason(world.storage, world.builds()[1]) is None
    world.fork(world.head(3, a="3"), 3, author="ann", action=FOUND_OPEN)
    assert wait_reason(world.storage, world.builds()[2]) is not None


def test_the_owner_may_give_forks_secrets(world: World):
    world.configure(fork_secrets=True, fork_approval="never")
    world.fork(world.head(a="1"))
    build = world.host.finish(world.only())
    assert (build.untrusted, build.from_fork) == (False, True)
    assert b"main 1 ***\n" in world.host.log(build)


def test_a_fork_is_rendered_by_the_provider_for_forks(world: World):
    world.configure(fork_approval="never", fork_provider="qemu")
    with pytest.raises(VmError, match='no provider "qemu"'):
        world.fork(world.head(a="1"))
    world.report(world.head(2, a="2"), 2, from_fork=False)
    assert not world.only().from_fork


def test_a_fork_registers_no_pipelines(world: World):
    world.configure(fork_approval="never")
    world.fork(world.head(**pipeline_file("ci", "more")))
    assert len(world.builds()) == 1
    assert world.storage.pipelines.by_source(world.pipeline.organization_id, "acme/web", "more") is None
    world.report(world.head(2, **pipeline_file("ci", "more")), 2)
    assert world.storage.pipelines.by_source(world.pipeline.organization_id, "acme/web", "more") is not None


def test_a_closed_pull_request_cancels_what_waits(world: World):
    commit = world.head(a="1")
    world.fork(commit)
    world.fork(world.head(2, b="1"), 2)
    world.fork(commit, action="closed")
    first, second = world.builds()
    assert world.host.finish(first).error_message == "the pull request 1 was closed"
    assert wait_reason(world.storage, second) is not None
    world.fork(commit, action="reopened")
    world.fork(commit, action="synchronize")
    assert [each.commit for each in world.builds()].count(commit) == 2


@pytest.mark.parametrize("mode", ["waiting", "branches"])
def test_a_newer_commit_cancels_what_runs_by_setting(world: World, mode: str):
    world.storage.pipelines.update(world.pipeline.id, cancel_superseded=CancelSuperseded(mode))
    world.report(world.head(**pipeline_file("ci", args=', "x": 1}, env={"LONG": "600"')))
    first = world.only()
    world.host.notes(first, b"Change")
    world.report(world.head(message="Two", **pipeline_file("ci")))
    world.host.finish(world.builds()[1])
    if mode == "branches":
        assert world.host.finish(first).state is BuildState.CANCELED
    else:
        assert world.host.job(first).state is JobState.RUNNING
        world.host.engine.cancel(first.id)


def test_only_files_that_differ_from_the_target_count(world: World):
    only_src = pipeline_file("ci", args=', "paths": ["src"]')
    world.remote.commit("Paths", **only_src)
    world.remote.push("main")
    world.remote.git("checkout", "--quiet", "-b", "topic")
    world.report(world.head(docs__a="1"))
    world.remote.git("checkout", "--quiet", "main")
    world.remote.commit("Meanwhile", src__b="1")
    world.remote.push("main")
    world.remote.git("checkout", "--quiet", "topic")
    world.report(world.head(docs__a="2"))
    assert world.builds() == []
    world.report(world.head(src__a="1"))
    assert len(world.builds()) == 1


def test_a_pull_request_with_another_target_is_looked_at_anew(world: World):
    """Its files and its environment may differ from those of then."""
    world.remote.commit("Both", **pipeline_file("ci", event='hm.pull_request(branches=["main", "release"])'))
    world.remote.push("main", "main:release")
    commit = world.head(a="1")
    world.report(commit, target_branch="elsewhere")
    assert world.builds() == []
    for target in ("main", "main", "release", "release"):
        world.report(commit, target_branch=target, action=RETARGETED)
    built = [world.storage.builds.env(each.id)["CI_TARGET_BRANCH"] for each in world.builds()]
    assert built == ["main", "release"]


def test_a_head_that_cannot_be_had_is_not_built(world: World):
    commit = world.head(a="1")
    for fields in (
        {"url": "/etc"},
        {"url": "ext::sh -c touch% /tmp/x"},
        {"url": "https://127.0.0.1:9/x.git"},
        {"head_ref": "refs/pull/1/head:refs/heads/main"},
        {"head_ref": "--upload-pack=touch"},
    ):
        world.fork(commit, **fields)
    world.fork("HEAD")
    for gone, ref in (("0" * 40, "refs/pull/1/head"), (commit, "refs/pull/9/head")):
        with pytest.raises(HeadUnavailable):
            world.fork(gone, head_ref=ref)
    assert world.builds() == []


def test_objects_of_a_hostile_fork_stop_no_other_build(world: World):
    blob = world.remote.git("hash-object", "-w", "--stdin", data=b"x")
    inner = world.remote.git("mktree", data=f"100644 blob {blob}\tconfig\n".encode())
    tree = world.remote.git("mktree", data=f"040000 tree {inner}\t.git\n".encode())
    hostile = world.remote.git("commit-tree", tree, "-m", "Hostile")
    world.remote.push(f"{hostile}:refs/pull/1/head")
    with pytest.raises(HeadUnavailable):
        world.fork(hostile)
    assert world.builds() == []
    world.report(world.head(2, a="1"), 2)
    assert len(world.builds()) == 1


def test_who_may_push_approves_at_the_host(world: World):
    world.fork(world.head(a="1"))
    build = world.only()
    world.storage.build_origins.reported(build.id, BuildState.SCHEDULED, "42")
    other = world.storage.repositories.connect(build.organization_id, "https://example.org/c/d.git", "c/d", 60)
    for repository, report, actor in (
        (world.repository, "42", "eve"),
        (world.repository, "42", None),
        (world.repository, "43", "ann"),
        (other, "42", "ann"),
    ):
        world.approvals.give(repository, ApprovalGiven(report, actor))
        assert wait_reason(world.storage, build) is not None
    for _ in range(2):
        world.approvals.give(world.repository, ApprovalGiven("42", "ann"))
    approved = world.storage.builds.get(build.id)
    assert approved is not None
    assert (approved.approved_by, approved.waits_for) == ("ann at git", None)
    (entry,) = world.storage.audit.page(10, None).rows
    assert (entry.actor, entry.action, entry.subject) == ("ann at git", "approveBuild", build.name)


def test_what_came_of_a_pull_request_is_kept(world: World):
    def outcome() -> str:
        return world.storage.push_outcomes.latest(world.repository.id, 1)[0].outcome

    world.fork(world.head(a="1"))
    assert outcome() == f"1 build: {world.pipeline.slug} #1, which waits for an approval"
    world.report(commit := world.head(2, a="2"), 2)
    assert outcome() == f"1 build: {world.pipeline.slug} #2"
    world.report(commit, 2)
    assert outcome() == "0 builds: it has been built before"
    world.report(world.head(2, message="No [skip ci]", a="3"), 2)
    assert outcome() == "0 builds: the message of its commit says [skip ci] or [ci skip]"
    world.report(world.head(2, a="4"), 2, target_branch="elsewhere")
    assert outcome().startswith('0 builds: no pipeline has a trigger for a pull request to "elsewhere"')
    world.report(world.head(2, a="5"), 2, head_ref="--upload-pack=touch")
    assert outcome() == "0 builds: its host names no commit and ref"
