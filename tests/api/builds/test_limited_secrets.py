"""Ways to a secret of the branch main from elsewhere, by everything that a member may ask the API for."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

import pytest

from actors.builds.retrying import repetition
from storage import (
    Build,
    BuildState,
    Declaration,
    DeclaringRepository,
    FetchedSource,
    NewBuild,
    Pipeline,
    Role,
    SecretLimitChanges,
    SecretNotAllowed,
    SecretScope,
    Storage,
    VerifiedEvent,
    pull_request_ref,
)
from tests.api.world import HELLO, Account, PipelinePath, World
from tests.records import new_job

URL = "https://git.example.org/acme/web"
MAIN: SecretLimitChanges = {"branches": ["main"]}
OF_MAIN = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}
ARCHIVE = base64.b64encode(b"an archive of their own").decode()


class Attacker:
    """A member, and no admin, of an organization with a connected repository."""

    def __init__(self, world: World, ada: Account, bob: Account) -> None:
        bob.join(ada, Role.MEMBER)
        self.storage: Storage = world.storage
        self.admin = ada
        self.own = ada.pipeline("web", repository=URL, repo_name="acme/web", source_slug="ci")
        self.path = self.own.path
        self.member = bob.client
        self.storage.repositories.connect(ada.org_id, URL, "acme/web", 60)
        declaring = DeclaringRepository(ada.org_id, "acme/web", URL)
        inputs = {"who": {"required": False}}
        self.storage.declarations.follow(declaring, {"ci": Declaration("ci", True, (), inputs=inputs)})

    @property
    def pipeline(self) -> Pipeline:
        found = self.storage.pipelines.by_slug(self.admin.org_id, "web")
        assert found is not None
        return found

    def build(self, number: int) -> Build:
        found = self.storage.builds.by_number(self.pipeline.id, number)
        assert found is not None
        return found

    def asks(self, path: str = "builds", **body: object) -> Build:
        answered = self.member.simulate_post(f"{self.path}/{path}", json=body)
        assert answered.status_code == 201, answered.text
        return self.build(answered.json["number"])

    def submits(self, **body: object) -> Build:
        return self.asks(**{"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO, **body})

    def starts(self, source: FetchedSource, **body: object) -> Build:
        started = self.asks("start", **body)
        assert self.storage.renders.fetched(started.id, source)
        return self.build(started.number)

    def has(self, **fields: object) -> Build:
        """Return a build that the service made by itself."""
        new = replace(NewBuild("main", "c0ffee", source="webhook", pipeline_ir=HELLO), **fields)  # type: ignore[arg-type]
        return self.storage.builds.create(self.pipeline, new, [new_job()])

    def ended(self, build: Build) -> Build:
        assert self.storage.builds.move(build.id, build.state, BuildState.FAILED)
        return self.build(build.number)


@pytest.fixture
def attacker(world: World, ada: Account, bob: Account) -> Attacker:
    return Attacker(world, ada, bob)


def had(attacker: Attacker, build: Build) -> dict[str, str]:
    """Return the secrets that a job of a build gets, if it names those of main."""
    planned = attacker.storage.jobs.of_build(attacker.has().id)[0]
    return attacker.storage.job_secrets.resolve(build, replace(planned, secrets=("TOKEN",)))


def a_rebuild(attacker: Attacker) -> Build:
    return attacker.asks(f"builds/{attacker.ended(attacker.submits()).number}/rebuild")


def a_retry(attacker: Attacker) -> Build:
    build = attacker.ended(attacker.submits())
    answered = attacker.member.simulate_post(f"{attacker.path}/builds/{build.number}/retry")
    assert answered.status_code == 200, answered.text
    return attacker.build(build.number)


def what_a_schedule_repeats(attacker: Attacker) -> Build:
    """The service repeats the latest build that says it is of main, where no repository is connected."""
    new, _ = repetition(attacker.storage, attacker.submits(), "schedule")
    return attacker.storage.builds.create(attacker.pipeline, new, [new_job()])


def fetched(branch: str, ref: str | None) -> FetchedSource:
    return FetchedSource(branch, "c0ffee", "Message", b"", verified_ref=ref)


def the_pull_request_of_a_fork(attacker: Attacker) -> Build:
    of_fork = {"verified_event": VerifiedEvent.PULL_REQUEST, "verified_ref": pull_request_ref(7), "from_fork": True}
    return attacker.has(branch="main", env={"CI_TARGET_BRANCH": "main"}, **of_fork)


WAYS: dict[str, Callable[[Attacker], Build]] = {
    "an archive that is called main": lambda attacker: attacker.submits(source_b64=ARCHIVE),
    "a plan for the commit of main": lambda attacker: attacker.submits(commit="f" * 40),
    "a source that says it is of a push": lambda attacker: attacker.submits(source="webhook", env={"CI_EVENT": "push"}),
    "a branch with its full name": lambda attacker: attacker.submits(branch="refs/heads/main"),
    "the head of main with variables": lambda attacker: attacker.starts(
        fetched("main", "refs/heads/main"), ref="main", env={"BASH_ENV": "$(cat /tmp/theirs)"}
    ),
    "a commit below the head of main": lambda attacker: attacker.starts(fetched("main", None), ref="c0ffee0"),
    "a tag that is called main": lambda attacker: attacker.has(
        verified_event=VerifiedEvent.TAG, verified_ref="refs/tags/main"
    ),
    "a branch that ends like main": lambda attacker: attacker.has(**{**OF_MAIN, "verified_ref": "refs/heads/x/main"}),
    "a fork's branch main": the_pull_request_of_a_fork,
    "a pull request to main that somebody starts": lambda attacker: attacker.starts(
        fetched("main", pull_request_ref(7)), ref="#7"
    ),
    "a rebuild of an archive": a_rebuild,
    "a retry of an archive": a_retry,
    "a schedule without a repository": what_a_schedule_repeats,
    "a build that waits for its fetch": lambda attacker: attacker.asks("start", ref="main"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_the_head_of_main_does_not_get_it(attacker: Attacker, way: str):
    build = WAYS[way](attacker)
    for pipeline_id in (attacker.pipeline.id, None):
        scope = SecretScope(attacker.admin.org_id, pipeline_id)
        attacker.storage.secrets.put(scope, "TOKEN", "for everybody")
        assert had(attacker, build) == {"TOKEN": "for everybody"}
        attacker.storage.secrets.limit(scope, "TOKEN", MAIN)
        with pytest.raises(SecretNotAllowed, match="it is limited to the branches main, and this build is of"):
            had(attacker, build)
        attacker.storage.secrets.remove(scope, "TOKEN")


def by_an_admin(attacker: Attacker) -> Build:
    body = {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}
    answered = attacker.admin.client.simulate_post(f"{attacker.path}/builds", json=body)
    return attacker.build(answered.json["number"])


OF_THE_HEAD: dict[str, Callable[[Attacker], Build]] = {
    "a push": lambda attacker: attacker.has(**OF_MAIN),
    "a rebuild of a push": lambda attacker: attacker.asks(
        f"builds/{attacker.ended(attacker.has(**OF_MAIN)).number}/rebuild"
    ),
    "a build of main that a member starts": lambda attacker: attacker.starts(
        fetched("main", "refs/heads/main"), ref="main", inputs={"who": "me"}
    ),
    "a build that an admin brings": by_an_admin,
}


@pytest.mark.parametrize("way", OF_THE_HEAD)
def test_what_is_the_head_of_main_gets_it(attacker: Attacker, way: str):
    attacker.storage.secrets.put(SecretScope(attacker.admin.org_id), "TOKEN", "of main", MAIN)
    assert had(attacker, OF_THE_HEAD[way](attacker)) == {"TOKEN": "of main"}


def test_a_pipelines_limited_secret_hides_the_organizations(attacker: Attacker):
    """A build that may not have the one does not get the other by the same name."""
    attacker.storage.secrets.put(SecretScope(attacker.admin.org_id), "TOKEN", "for everybody")
    attacker.storage.secrets.put(SecretScope(attacker.admin.org_id, attacker.pipeline.id), "TOKEN", "of main", MAIN)
    with pytest.raises(SecretNotAllowed):
        had(attacker, attacker.submits())


def test_a_url_that_is_fetched_again_is_nobodys_word(attacker: Attacker):
    """A URL that an admin gave may have another source as a member rebuilds it."""
    body = {"branch": "main", "commit": "c0ffee", "source_url": "https://example.org/source.tar.gz"}
    started = attacker.storage.renders.begin(
        attacker.pipeline, NewBuild("main", "c0ffee", verified_ref="refs/heads/main"), str(body["source_url"])
    )
    new, url = repetition(attacker.storage, started, "api")
    assert (url, new.verified_event, new.verified_ref) == (body["source_url"], VerifiedEvent.API, None)


def test_a_request_that_anything_can_be_made_of_is_of_no_event(pipeline: PipelinePath, world: World):
    build = pipeline.build(source="schedule", env={"CI_EVENT": "schedule"}).stored
    world.storage.secrets.put(SecretScope(build.organization_id), "TOKEN", "nightly", {"events": ["schedule"]})
    job = replace(world.storage.jobs.of_build(build.id)[0], secrets=("TOKEN",))
    with pytest.raises(SecretNotAllowed, match="the events schedule, and this build's is api"):
        world.storage.job_secrets.resolve(build, job)
