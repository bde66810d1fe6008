"""Links of lists to commits, branches, pull requests and authors at the source host."""

from __future__ import annotations

import pytest

from storage import (
    BuildState,
    JobState,
    NewBuild,
    NewEnvironment,
    NewHostConnection,
    NewOrigin,
    OriginEvent,
    RemoteRepository,
    Repository,
    Storage,
)
from tests.api.console.browser import Browser, main_of
from tests.api.world import HELLO, Account, PipelinePath, World
from tests.records import new_job

WEB = "https://example.org/acme/demo"
COMMIT, BRANCH, PULL = f'"{WEB}/commit/c0ffee"', f'"{WEB}/tree/main"', f'"{WEB}/pull/7"'
AUTHOR = f'"{WEB}/commits/main?author=eve%40example.org"'


@pytest.fixture
def repository(ada: Account, storage: Storage) -> Repository:
    connection = storage.host_connections.connect(NewHostConnection(ada.org_id, "github", "7", "acme"))
    remote = RemoteRepository("1", f"{WEB}.git", "acme/demo", "main", private=True)
    return storage.repositories.put_remote(connection, remote)


def build(pipeline: PipelinePath, repository: Repository, state: BuildState | None = None) -> None:
    """Make a build of a pull request, whose job deploys."""
    storage = pipeline.account.world.storage
    found = storage.pipelines.by_slug(pipeline.account.org_id, pipeline.path.rpartition("/")[2])
    assert found is not None
    new = NewBuild("main", "c0ffee", message="Mend it", pipeline_ir=HELLO)
    made = storage.builds.create(found, new, [new_job("deploy", environment="production")])
    origin = NewOrigin(
        repository.id, OriginEvent.PULL_REQUEST, "refs/heads/main", 7, "main", "eve", "Eve", "eve@example.org"
    )
    storage.build_origins.record(made.id, origin, reports=False)
    if state is not None:
        (job,) = storage.jobs.of_build(made.id)
        storage.jobs.move(job.id, JobState.PENDING, JobState.SCHEDULED)
        storage.jobs.move(job.id, JobState.SCHEDULED, JobState(state))
        storage.builds.move(made.id, BuildState.SCHEDULED, state)


def test_lists_lead_to_what_builds_are_of(
    world: World, ada: Account, pipeline: PipelinePath, repository: Repository, storage: Storage
):
    """Not on a public page to a stranger, as the repository may be private."""
    storage.environments.create(ada.org_id, NewEnvironment("production", None, ()))
    build(pipeline, repository, BuildState.FAILED)
    build(pipeline, repository)
    shown = Browser.of(ada).get
    of_pipeline = f"/{ada.org}/pipelines/demo"
    for page in ("/", f"/{ada.org}"):
        broken, rest = main_of(shown(page)).split('id="running"')
        running, standing = rest.split('<ul class="board standing')
        assert (COMMIT in broken, AUTHOR in broken) == (True, True), page
        assert all(each in running for each in (COMMIT, BRANCH, PULL, AUTHOR)), page
        assert BRANCH in standing, page
    for page in (of_pipeline, "/search?q=mend"):
        assert all(main_of(shown(page)).count(each) == 2 for each in (COMMIT, BRANCH, PULL, AUTHOR)), page
    assert main_of(shown(f"/{ada.org}/environments")).count(COMMIT) >= 2
    ada.client.simulate_patch(pipeline.path, json={"visibility": "public"})
    assert WEB not in main_of(Browser(world).get(of_pipeline))


def test_a_repositorys_pushes_lead_to_their_commits(ada: Account, repository: Repository, storage: Storage):
    storage.push_outcomes.record(repository.id, "refs/heads/fix", "c0ffee", "nothing was built")
    storage.push_outcomes.record(repository.id, "refs/heads/other", "c0ffee", "nothing was built", (), 7)
    storage.push_outcomes.record(repository.id, "refs/tags/v1", "c0ffee", "nothing was built")
    pushes = main_of(Browser.of(ada).get(f"/{ada.org}/repositories/{repository.uuid}")).partition('id="pushes"')[2]
    assert pushes.count(COMMIT) == 3
    assert [pushes.count(f'"{WEB}/{each}') for each in ("tree/fix", "pull/7", "tree/")] == [1, 1, 1]


def test_pipelines_find_their_repositories_together(ada: Account, repository: Repository, storage: Storage):
    """By URL, or else by name where no URL says something else; as each does alone."""
    for name, fields in (
        ("Same", {}),
        ("Named", {"repository": "acme/demo", "repo_name": "ACME/demo"}),
        ("Elsewhere", {"repository": "https://other.example/acme/demo", "repo_name": "acme/demo"}),
        ("None", {"repository": "https://other.example/acme/none"}),
    ):
        ada.pipeline(name, **fields)
    pipelines = storage.pipelines.page(ada.org_id, 10, None).rows
    together = storage.repositories.of_pipelines(pipelines)
    assert {each.name for each in pipelines if each.id in together} == {"Same", "Named"}
    assert [together.get(each.id) for each in pipelines] == [
        storage.repositories.of_pipeline(each) for each in pipelines
    ]
    assert set(together.values()) == {repository}
