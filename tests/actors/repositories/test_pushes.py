"""Pushes to a real repository, and reports of them: each is built once, whatever comes first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from actors.composition import ChildSpec, Composition
from actors.log_watchers import LogWatchers
from actors.repositories import heads_at
from actors.repositories.commit_builds import CommitParts
from actors.repositories.pushes import PushBuilds
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from actors.vms import Images, Provider
from storage import Build, BuildSettings, BuildState, NewBuild, NewSchedule, Repository, TooManyBuilds
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
YAML = "{on: {push: true}, jobs: {a: {run: x, when: {event: push}}}}"
UNREAD = "its pipeline files cannot be read, and no pipeline that is known wants it"


class Telling(PlainGit):
    """A host that is told of builds."""

    reports = True


class Pushed:
    """A connected repository that reports its pushes only when it is told to."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.storage = host, host.storage
        self.remote = GitRepository(folder)
        self.first = self.remote.commit("Begin", **{".hm__pipeline.py": PIPELINE})
        self.remote.push("main")
        self.organization_id = host.pipeline.organization_id
        settings, hosts = LiveSettings(host.settings), {"git": Telling(self.storage)}
        self.settings, self.watchers = settings.now.repositories, LogWatchers()
        parts = CommitParts(
            storage=self.storage,
            clock=host.clock,
            discovery=discovery_in(host.storage, host.providers, host.images, host.clock, settings),
            live_settings=settings,
            root=host.engine.addresses.root,
            hosts=hosts,
        )
        self.pushes = PushBuilds(parts, folder / "mirrors", self.watchers)
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


class _UnwatchedHost(Host):
    """A host whose engine looks at no repository: each look is the test's."""

    def pollers(self, parts: Composition) -> tuple[ChildSpec, ...]:
        return ()


@pytest.fixture
def host(tmp_path: Path, provider: Provider, images: Images) -> Iterator[Host]:
    host = _UnwatchedHost(tmp_path, provider, images)
    host.engine.start()
    yield host
    host.close()


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
    assert {(each.branch, each.verified_event, each.verified_ref) for each in pushed.builds()} == {
        ("main", "push", "refs/heads/main"),
        ("topic", "push", "refs/heads/topic"),
        ("v1", "tag", "refs/tags/v1"),
    }
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
        ({".hm__pipeline.py": ""}, "Change", "0 builds: it declares no pipeline in .hm"),
        ({".hm__pipeline.py": "", ".hm__ci.yml": YAML}, "Change", "1 build: acme-web-ci #1"),
        (
            {".hm__pipeline.py": "", ".hm__ci.yml": YAML.replace("push: true", "push: {paths: src}")},
            "Change",
            "0 builds: none of the changed files is among the paths of its triggers",
        ),
        (
            {".hm__pipeline.py": "", ".hm__ci.yml": YAML.replace("run", "rum").replace("push}", "psh}")},
            "Change",
            f'0 builds: {UNREAD}: .hm/ci.yml:1:31: jobs.a.rum: unknown key "rum": did you mean "run"?',
        ),
        (
            {".hm__pipeline.py": "raise ValueError('no such luck')"},
            "Change",
            f"0 builds: {UNREAD}: ValueError: no such luck",
        ),
    ],
    ids=[
        "built",
        "skipped",
        "no trigger",
        "paths",
        "no pipeline",
        "YAML",
        "YAML paths",
        "YAML mistake",
        "unreadable",
    ],
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


def test_a_push_of_woodpeckers_file_alone_is_built(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.remote.git("rm", "--quiet", ".hm/pipeline.py")
    steps = "[{name: a, image: x, commands: [make]}]"
    pushed.remote.commit("Other", **{".woodpecker.yml": f"when: {{event: push, branch: main}}\nsteps: {steps}\n"})
    pushed.remote.push("main", "main:other")
    assert [name for name, _ in pushed.look()] == ["main"]


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


NIGHTLY = "{{on: {{schedule: [{times}]}}, jobs: {{a: {{run: x}}}}}}"


class Scheduled:
    """A repository whose only file declares schedules and no other trigger."""

    def __init__(self, pushed: Pushed) -> None:
        self.pushed = pushed
        pushed.connect(heads=True)
        pushed.remote.git("rm", "--quiet", ".hm/pipeline.py")

    def push(
        self, times: str | None, message: str = "Change", to: str = "main"
    ) -> list[tuple[str, str, str, str | None]]:
        """Push a file with these schedules, or remove it; return the pipeline's schedules."""
        if times is None:
            self.pushed.remote.git("rm", "--quiet", ".hm/ci.yml")
            self.pushed.remote.commit(message)
        else:
            self.pushed.remote.commit(message, **{".hm__ci.yml": NIGHTLY.format(times=times)})
        self.pushed.remote.push("--force", f"HEAD:{to}")
        self.pushed.look()
        return self.schedules()

    def schedules(self) -> list[tuple[str, str, str, str | None]]:
        storage = self.pushed.storage
        pipeline = storage.pipelines.by_slug(self.pushed.organization_id, "acme-web-ci")
        rows = [] if pipeline is None else storage.schedules.page(pipeline.id, 100, None).rows
        return [(each.cron, each.timezone, each.branch, each.declared_in) for each in rows]


def test_the_schedules_of_a_file_follow_the_default_branch(pushed: Pushed):
    """A pipeline that nothing but its schedules builds is made by the push that declares them."""
    scheduled, file = Scheduled(pushed), ".hm/ci.yml"
    berlin = "{cron: 30 4 * * 1-5, timezone: Europe/Berlin}"
    assert scheduled.push(berlin, to="topic") == []
    assert scheduled.push(f"{berlin}, {berlin}") == [("30 4 * * 1-5", "Europe/Berlin", "main", file)]
    assert pushed.builds() == []
    pipeline = pushed.storage.pipelines.by_slug(pushed.organization_id, "acme-web-ci")
    assert pipeline is not None
    (kept,) = pushed.storage.schedules.page(pipeline.id, 10, None).rows
    assert kept.next_at is not None
    by_hand = pushed.storage.schedules.create(pipeline.id, NewSchedule("1 1 * * *", "UTC", "release", kept.next_at))
    own = ("1 1 * * *", "UTC", "release", None)
    assert scheduled.push("{cron: 0 5 * * *}", to="topic")[0][0] == "30 4 * * 1-5"
    after = scheduled.push(f"{berlin}, {{cron: 0 5 * * *}}")
    assert after == [("30 4 * * 1-5", "Europe/Berlin", "main", file), own, ("0 5 * * *", "UTC", "main", file)]
    assert pushed.storage.schedules.by_uuid(kept.uuid) == kept
    assert scheduled.push("{cron: 0 5}") == after, "a file that cannot be read changes nothing"
    assert scheduled.push("{cron: 0 5 * * *}") == [own, ("0 5 * * *", "UTC", "main", file)]
    assert scheduled.push(None) == [own]
    assert pushed.storage.schedules.by_uuid(by_hand.uuid) == by_hand


def test_what_a_file_follows_is_what_the_default_branch_says(pushed: Pushed):
    scheduled = Scheduled(pushed)
    inputs = "inputs: {{v: inputs.w}}}}, manual: {{inputs: {{v: {{}}}}}}"
    after = "{{on: {{pipeline: {{slug: base, state: {state}, " + inputs + "}}, jobs: {{a: {{run: x}}}}}}"
    found = []
    for state in ("passed", "failed"):
        pushed.remote.commit("Change", **{".hm__ci.yml": after.format(state=state)})
        pushed.remote.push("HEAD:main")
        pushed.look()
        pipeline = pushed.storage.pipelines.by_slug(pushed.organization_id, "acme-web-ci")
        assert pipeline is not None
        triggers = pushed.storage.pipeline_triggers.of_pipeline(pipeline.id)
        found += [(each.slug, each.state, each.branch, each.declared_in, each.inputs) for each in triggers]
    assert found == [("base", state, "main", ".hm/ci.yml", {"v": "inputs.w"}) for state in ("passed", "failed")]
    assert scheduled.push(None) == []
    assert pushed.storage.pipeline_triggers.of_pipeline(pipeline.id) == []


def test_a_pipeline_for_people_alone_is_known_after_a_push(pushed: Pushed):
    """The push to the default branch that declares it names it, once, and builds nothing of it."""
    pushed.connect(heads=True)
    by_hand = "{on: {manual: {inputs: {to: {}}}}, jobs: {a: {run: x}}}"
    outcomes = []
    for to in ("topic", "main", "main"):
        pushed.remote.commit("Change", **{".hm__deploy.yml": by_hand, "a": str(next(pushed.names))})
        pushed.remote.push("--force", f"HEAD:{to}")
        pushed.look()
        outcomes.append(pushed.storage.push_outcomes.latest(pushed.repository.id, 1)[0].outcome)
    new = "; new, to be started by hand: acme-web-deploy"
    assert outcomes == [f"1 build: acme-web-ci #{number}{new * (number == 2)}" for number in (1, 2, 3)]
    pipeline = pushed.storage.pipelines.by_slug(pushed.organization_id, "acme-web-deploy")
    assert pipeline is not None
    assert (pipeline.allow_manual, pipeline.build_count) == (True, 0)
    declared = pushed.storage.declarations.get(pipeline.id)
    assert declared is not None
    assert declared.inputs == {"to": {}}


def skips(pushed: Pushed) -> list[tuple[str, str, str]]:
    """Return the pipelines that the host is told to be skipped, with commits and reasons."""
    found = []
    for each in pushed.storage.skipped_pipelines.due(100):
        pipeline = pushed.storage.pipelines.by_id(each.pipeline_id)
        assert pipeline is not None
        found.append((pipeline.slug, each.commit, each.reason))
    return found


def test_a_pipeline_that_a_push_does_not_build_is_skipped(pushed: Pushed):
    """By paths, branch and the message of the commit, once a commit; not of one that is unknown."""
    pushed.connect(heads=True)
    text = "{on: {push: {branches: [main, next], paths: src}}, jobs: {a: {run: x}}}"
    docs = "{on: {push: {branches: [other]}}, jobs: {a: {run: x}}}"
    pushed.remote.git("rm", "--quiet", ".hm/pipeline.py")
    pushed.remote.commit("Add", **{".hm__ci.yml": text, ".hm__docs.yml": docs, "src__a": "1"})
    pushed.remote.push("main")
    pushed.look()
    assert skips(pushed) == [], "docs is not known before it is built"
    built = pushed.storage.builds.latest(pushed.builds()[0].pipeline_id, "main")
    assert built is not None
    by_paths = pushed.push()
    pushed.remote.push("HEAD:next")
    pushed.look()
    why = "none of the changed files is among the paths of its triggers"
    assert skips(pushed) == [("acme-web-ci", by_paths, why)]
    by_branch = pushed.push(to="topic")
    pushed.look()
    assert skips(pushed)[1:] == [("acme-web-ci", by_branch, 'it has no trigger for the branch "topic"')]
    by_message = pushed.push("Change [skip ci]")
    pushed.look()
    says = "the message of its commit says [skip ci] or [ci skip]"
    assert skips(pushed)[2:] == [("acme-web-ci", by_message, says)]
    assert [each.commit for each in pushed.builds()] == [built.commit, by_paths], "what is new in next is not known"


def test_nothing_is_skipped_whose_files_cannot_be_read(pushed: Pushed):
    """The new files may want the commit, so no required check passes by triggers of before."""
    pushed.connect(heads=True)
    pushed.remote.git("rm", "--quiet", ".hm/pipeline.py")
    text = "{on: {push: {branches: main, paths: src}}, jobs: {a: {run: x}}}"
    pushed.remote.commit("Add", **{".hm__ci.yml": text, "src__a": "1"})
    pushed.remote.push("main")
    pushed.look()
    pushed.remote.commit("Break", **{".hm__ci.yml": "{on: {push: {branches: main}}, jobs: {a: {run: "})
    pushed.remote.push("main")
    pushed.look()
    assert skips(pushed) == []


def test_paths_of_steps_are_told_as_skipped_too(pushed: Pushed):
    pushed.connect(heads=True)
    pushed.push()
    pushed.look()
    text = PIPELINE.replace('key="only"', 'key="only", runner_args={"paths": ["src"]}')
    commit = pushed.remote.commit("Change", **{".hm__pipeline.py": text})
    pushed.remote.push("main")
    pushed.look()
    why = "none of the changed files is among the paths of its pipelines' steps"
    assert skips(pushed) == [("acme-web-ci", commit, why)]
