"""Words of hosts beside the state of a build: the commit that broke it, and failures in quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from actors.addresses import Address
from actors.messages import PollStorage, StatusReporterMessage
from actors.parts import Parts
from actors.settings import JobSettings, LiveSettings, PoolSettings, PreviewSettings
from actors.source_hosts import Github, GithubApi
from actors.source_hosts.reporting import StatusReporter
from actors.supervision import spawn
from storage import (
    Build,
    BuildState,
    CulpritState,
    ExcusedTest,
    JobState,
    NewOrigin,
    NewPipeline,
    OriginEvent,
    Outcome,
    Pipeline,
    PreviewSpec,
    Repository,
    Storage,
    SystemClock,
)
from tests.actors.conftest import settings_with
from tests.actors.source_hosts.forges import forged
from tests.clock import ManualClock
from tests.culprits import pushed
from tests.forges.bitbucket import BitbucketServer
from tests.forges.workspaces import bitbucket
from tests.github_server import GithubServer
from tests.waiting import until

GOOD, BAD, QUARANTINED = "a" * 40, "b" * 40, "c" * 40


@pytest.fixture
def clock() -> ManualClock:
    """A clock that begins now, because GitHub's answers name moments of the host's."""
    return ManualClock(SystemClock().now())


@dataclass
class At:
    """A host in this process, a repository there, and what it shows of a commit, by the names of checks."""

    hosts: Mapping[str, Any]
    repository: Repository
    shown: Callable[[str], dict[str, str]]


def statuses(server: Any) -> Callable[[str], dict[str, str]]:
    """Return what shows the newest statuses of a commit at Forgejo, Gitea, GitLab and Bitbucket."""

    def shown(commit: str) -> dict[str, str]:
        of_commit = (each for each in server.statuses if commit in {each.get("sha"), each.get("commit")})
        return {
            next(each[name] for name in ("context", "name", "key") if name in each): each["description"]
            for each in of_commit
        }

    return shown


@contextmanager
def at(kind: str, storage: Storage, clock: ManualClock, org: int, folder: Path) -> Iterator[At]:
    if kind == "bitbucket":
        with bitbucket(storage, clock, folder / kind, BitbucketServer()) as host:
            yield At({kind: host.host}, host.connect(org), statuses(host.server))
    elif kind == "github":
        with GithubServer.serving() as server:
            server.install(7, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
            settings = server.settings(folder / "app.pem")
            app = Github(storage, settings, GithubApi(settings, clock), sign_in_proves=True)
            app.installations.bind(org, 7, None)
            (repository,) = storage.repositories.of_organization(org)

            def shown(commit: str) -> dict[str, str]:
                runs = [each for each in server.check_runs.values() if each["head_sha"] == commit]
                return {each["name"]: f"{each['output']['title']} {each['output']['summary']}" for each in runs}

            yield At({kind: app}, repository, shown)
    else:
        with forged(kind, storage, folder / "forge") as forge:
            yield At(forge.hosts, forge.connect(org), statuses(forge.server))


@pytest.fixture(params=["github", "gitlab", "forgejo", "gitea", "bitbucket"])
def host(
    request: pytest.FixtureRequest, storage: Storage, clock: ManualClock, org: int, tmp_path: Path
) -> Iterator[At]:
    with at(request.param, storage, clock, org, tmp_path) as host:
        yield host


@pytest.fixture
def reporter(storage: Storage, clock: ManualClock, host: At) -> Iterator[Address[StatusReporterMessage]]:
    settings = settings_with(PoolSettings(), JobSettings())
    settings = replace(settings, previews=PreviewSettings(url="http://previews.example.net"))
    parts = Parts(storage=storage, clock=clock, live_settings=LiveSettings(settings))
    parts.timer.start()
    actor: Address[StatusReporterMessage] = spawn(StatusReporter, parts, hosts=host.hosts)
    yield actor
    actor.stop()
    parts.timer.stop()


def reported(storage: Storage, repository: Repository, pipeline: Pipeline, commit: str, end: JobState | None) -> Build:
    build = pushed(storage, pipeline, commit, end)
    storage.build_origins.record(build.id, NewOrigin(repository.id, OriginEvent.PUSH, "refs/heads/main"), reports=True)
    return build


def test_each_host_links_the_preview_of_a_build(
    storage: Storage, host: At, reporter: Address[StatusReporterMessage]
) -> None:
    """And says that it is gone, long after the build has ended."""
    repository = host.repository
    pipeline = storage.pipelines.create(repository.organization_id, NewPipeline("web", "Web", repository.url, "main"))
    build = reported(storage, repository, pipeline, GOOD, JobState.PASSED)
    (job,) = storage.jobs.of_build(build.id)
    serves = replace(job, preview=PreviewSpec(8000, "serve").document)
    storage.previews.add(build, serves, "a-disk")

    def shows(text: str) -> str:
        def look() -> str | None:
            reporter.ask(PollStorage())
            found = host.shown(GOOD).get("ci/web", "")
            return found if text in found else None

        return until(look, text, 20)

    address = f"http://preview-{serves.preview_uuid}.previews.example.net"
    shows(address)
    preview = storage.previews.by_uuid(serves.preview_uuid)
    assert preview is not None
    storage.previews.end(preview.id, "a member ended it")
    assert address not in shows("gone")


def test_each_host_shows_what_broke_a_build_and_what_is_excused(
    storage: Storage, host: At, reporter: Address[StatusReporterMessage]
) -> None:
    """Also at a status that is shown already: the search ends long after the build."""
    repository = host.repository
    pipeline = storage.pipelines.create(repository.organization_id, NewPipeline("web", "Web", repository.url, "main"))

    def shows(commit: str, *texts: str) -> None:
        def look() -> bool:
            reporter.ask(PollStorage())
            found = host.shown(commit)
            return all(text in found.get(name, "") for text in texts for name in ("ci/web", "ci-daemon"))

        try:
            until(look, f"{texts}", 20)
        except AssertionError:
            pytest.fail(f"{texts} is not in {host.shown(commit)}")

    reported(storage, repository, pipeline, GOOD, JobState.PASSED)
    shows(GOOD, "assed")
    build = reported(storage, repository, pipeline, BAD, JobState.FAILED)
    shows(BAD, "ailed")
    search = storage.culprits.begin(build)
    assert search is not None
    storage.culprits.end(search, CulpritState.FOUND, "it failed with it, and passed before", BAD)
    storage.build_origins.amend(build.id)
    shows(BAD, "ailed", f"broken by {BAD[:8]}")

    excused = reported(storage, repository, pipeline, QUARANTINED, None)
    (job,) = storage.jobs.of_build(excused.id)
    failed = Outcome(exit_code=1, soft_failed=True)
    assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.FAILED, failed)
    storage.quarantine.excuse(job.id, [ExcusedTest(job.id, excused.id, "suite", "test_flaky", excused.created_at)])
    storage.builds.move(excused.id, BuildState.SCHEDULED, BuildState.PASSED)
    shows(QUARANTINED, "assed", "1 failed test in quarantine")
