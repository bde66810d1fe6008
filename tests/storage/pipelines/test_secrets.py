from __future__ import annotations

from pathlib import Path

import pytest

from storage import (
    JobState,
    Organization,
    Outcome,
    Pipeline,
    SealBroken,
    SecretInvalid,
    SecretLimitChanges,
    SecretNotAllowed,
    SecretNotFound,
    SecretScope,
    Storage,
    VerifiedEvent,
)
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

VALUE = "hunter2 ✓\n"


@pytest.fixture
def of_all(organization: Organization) -> SecretScope:
    return SecretScope(organization.id)


@pytest.fixture
def of_one(pipeline: Pipeline) -> SecretScope:
    return SecretScope(pipeline.organization_id, pipeline.id)


def _names(storage: Storage, scope: SecretScope) -> list[str]:
    return [secret.name for secret in storage.secrets.names(scope)]


def test_a_scope_has_its_own_secrets_by_name(storage: Storage, world: World, of_all: SecretScope, of_one: SecretScope):
    other = world.other_pipeline("Other")
    for name in ("TOKEN", "KEY"):
        storage.secrets.put(of_all, name, VALUE)
    storage.secrets.put(of_one, "TOKEN", "of the pipeline")
    storage.secrets.put(SecretScope(other.organization_id), "OTHERS", "of another")
    assert _names(storage, of_all) == ["KEY", "TOKEN"]
    assert _names(storage, of_one) == ["TOKEN"]
    assert storage.secrets.remove(of_one, "TOKEN")
    assert not storage.secrets.remove(of_one, "TOKEN")
    assert not storage.secrets.remove(of_one, "KEY")
    assert _names(storage, of_all) == ["KEY", "TOKEN"]


def test_setting_again_keeps_when_it_was_first_set(storage: Storage, clock: ManualClock, of_all: SecretScope):
    first = storage.secrets.put(of_all, "TOKEN", VALUE)
    later = clock.advance(hours=1)
    again = storage.secrets.put(of_all, "TOKEN", "another")
    assert first.created_at == first.updated_at == again.created_at < again.updated_at == later
    assert storage.secrets.names(of_all) == [again]


@pytest.mark.parametrize("name", ["A", "_", "a1_B", "CIA", "PATHS", "x" * 255])
def test_a_name_is_one_that_a_shell_reads(storage: Storage, of_all: SecretScope, name: str):
    assert storage.secrets.put(of_all, name, VALUE).name == name


@pytest.mark.parametrize(
    "name", ["", "1A", "A-B", "A B", "Ä", "A\n", "x" * 256, "CI", "CI_", "CI_JOB_ID", "HOME", "PATH", "\ud800"]
)
def test_no_other_name_is_taken_nor_one_of_the_services(storage: Storage, of_all: SecretScope, name: str):
    with pytest.raises(SecretInvalid, match=r"^name: expected "):
        storage.secrets.put(of_all, name, VALUE)
    assert storage.secrets.names(of_all) == []


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", "x" * 65_537, "é" * 32_769])
def test_a_value_is_text_of_some_length(storage: Storage, of_all: SecretScope, value: str):
    with pytest.raises(SecretInvalid, match=r"^value: expected ") as raised:
        storage.secrets.put(of_all, "TOKEN", value)
    assert len(str(raised.value)) < 100


def test_a_pipelines_secret_overrides_the_organizations(
    storage: Storage, world: World, of_all: SecretScope, of_one: SecretScope
):
    storage.secrets.put(of_all, "BOTH", "organization's")
    storage.secrets.put(of_one, "BOTH", "pipeline's")
    storage.secrets.put(of_all, "LONG", "é" * 32_768)
    storage.secrets.put(of_all, "UNNAMED", "unnamed")
    build = world.build(new_job(secrets=("LONG", "BOTH", "BOTH")), new_job("plain"))
    world.start(world.job(build))
    named, plain = world.jobs(build)
    assert storage.job_secrets.resolve(build, named) == {"LONG": "é" * 32_768, "BOTH": "pipeline's"}
    assert storage.job_secrets.resolve(build, plain) == {}


def test_each_attempt_gets_and_keeps_the_secrets_of_its_start(storage: Storage, world: World, of_all: SecretScope):
    storage.secrets.put(of_all, "TOKEN", "old")
    build = world.build(new_job(secrets=("TOKEN",)))
    lease = world.start(world.job(build))
    job = world.job(build)
    assert storage.job_secrets.of_attempt(job) == {}
    assert storage.job_secrets.resolve(build, job) == {"TOKEN": "old"}
    storage.secrets.put(of_all, "TOKEN", "new")
    assert storage.job_secrets.resolve(build, job) == storage.job_secrets.of_attempt(job) == {"TOKEN": "old"}
    storage.secrets.remove(of_all, "TOKEN")
    assert storage.job_secrets.resolve(build, job) == storage.job_secrets.of_attempt(job) == {"TOKEN": "old"}

    storage.secrets.put(of_all, "TOKEN", "newer")
    assert storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    world.start(job)
    assert storage.job_secrets.of_attempt(job) == {}
    assert storage.job_secrets.resolve(build, world.job(build)) == {"TOKEN": "newer"}


def test_an_ended_attempt_keeps_no_secrets(storage: Storage, world: World, of_all: SecretScope):
    storage.secrets.put(of_all, "TOKEN", VALUE)
    build = world.build(new_job(secrets=("TOKEN",)))
    lease = world.start(world.job(build))
    job = world.job(build)
    storage.job_secrets.resolve(build, job)
    assert world.finish(job, lease)
    assert storage.job_secrets.of_attempt(job) == {}


def test_a_missing_secret_is_an_error_with_the_searched_places(storage: Storage, world: World, of_all: SecretScope):
    other = world.other_pipeline("Other")
    storage.secrets.put(of_all, "THERE", VALUE)
    for scope in (SecretScope(other.organization_id), SecretScope(other.organization_id, other.id)):
        storage.secrets.put(scope, "TOKEN", "of another")
    build = world.build(new_job(secrets=("THERE", "TOKEN", "KEY")))
    world.start(world.job(build))
    with pytest.raises(SecretNotFound) as raised:
        storage.job_secrets.resolve(build, world.job(build))
    assert str(raised.value) == (
        "no secret TOKEN, KEY is set for the pipeline web or the organization acme: set it, or take it out of the"
        " step's runner_args.secrets"
    )
    assert storage.job_secrets.of_attempt(world.job(build)) == {}


def test_a_sealed_value_opens_in_its_own_place_alone(
    storage: Storage, database: Database, world: World, of_all: SecretScope, of_one: SecretScope
):
    storage.secrets.put(of_all, "A", "value of A")
    storage.secrets.put(of_all, "B", "value of B")
    storage.secrets.put(of_one, "C", "value of C")
    for wrong in (
        "UPDATE secrets SET value = (SELECT value FROM secrets WHERE name = 'B') WHERE name = 'A'",
        "UPDATE secrets SET name = 'A' WHERE name = 'C'",
        "UPDATE secrets SET pipeline_id = 1 WHERE name = 'A' AND pipeline_id IS NULL",
    ):
        build = world.build(new_job(secrets=("A",)))
        world.start(world.job(build))
        database.execute("SAVEPOINT swapped")
        database.execute(wrong)
        with pytest.raises(SealBroken):
            storage.job_secrets.resolve(build, world.job(build))
        database.execute("ROLLBACK TO swapped")
        database.execute("RELEASE swapped")
        assert storage.job_secrets.resolve(build, world.job(build)) == {"A": "value of A"}


def test_no_file_of_the_storage_holds_a_value(tmp_path: Path, storage: Storage, world: World, of_all: SecretScope):
    storage.secrets.put(of_all, "TOKEN", "a-value-that-nobody-reads")
    build = world.build(new_job(secrets=("TOKEN",)), env={"KEY": "an-env-that-nobody-reads"})
    world.start(world.job(build))
    storage.job_secrets.resolve(build, world.job(build))
    assert storage.builds.env(build.id) == {"KEY": "an-env-that-nobody-reads"}
    files = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
    assert {file.name for file in files} >= {"ci-daemon.sqlite3", "ci-daemon.sqlite3-wal"}
    for file in files:
        assert b"nobody-reads" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("limits", "fields", "environment", "why"),
    [
        ({"environments": ["prod*"]}, {}, "production", ""),
        ({"environments": ["prod*"]}, {}, "staging", "the environments prod*, and this job has the gate of staging"),
        ({"environments": ["prod*"]}, {}, None, "the environments prod*, and this job has no gate"),
        ({"pipelines": ["we*"]}, {}, None, ""),
        ({"pipelines": ["app"]}, {}, None, "the pipelines app, and this one is web"),
        ({"events": ["push", "tag"]}, {"verified_event": VerifiedEvent.TAG}, None, ""),
        ({"events": ["push", "tag"]}, {}, None, "the events push, tag, and this build's is api"),
        ({"branches": ["main"], "tags": ["v*"]}, {"verified_ref": "refs/tags/v1"}, None, ""),
        ({"branches": ["main"], "tags": ["v*"]}, {"verified_ref": "refs/heads/v1"}, None, 'is of the branch "v1"'),
        ({"branches": ["*"]}, {"verified_ref": "refs/pull/7/head"}, None, "is of pull request 7"),
        ({"branches": ["*"]}, {"verified_event": VerifiedEvent.MANUAL}, None, "a commit that is not the head"),
    ],
)
def test_each_limit_has_to_match(
    storage: Storage,
    world: World,
    of_all: SecretScope,
    limits: SecretLimitChanges,
    fields: dict[str, object],
    environment: str | None,
    why: str,
):
    storage.secrets.put(of_all, "TOKEN", VALUE, limits)
    build = world.build(new_job(secrets=("TOKEN",), environment=environment), **fields)
    if not why:
        assert storage.job_secrets.resolve(build, world.job(build)) == {"TOKEN": VALUE}
        return
    with pytest.raises(SecretNotAllowed, match=r"^the secret TOKEN is not for this job: it is limited to ") as raised:
        storage.job_secrets.resolve(build, world.job(build))
    assert why in str(raised.value)


SOURCE = {
    "kind": "vault",
    "url": "https://vault.example.org:8200/",
    "role": "deploy",
    "path": "team/web",
    "field": "token",
}


def test_a_secret_from_elsewhere_has_no_value_here(storage: Storage, world: World, of_all: SecretScope):
    """It shows where it comes from, and a value that is set anew ends that."""
    made = storage.secrets.put_source(of_all, "TOKEN", SOURCE)
    assert made.source == {
        **SOURCE,
        "audience": "https://vault.example.org:8200",
        "mount": "secret",
        "auth_mount": "jwt",
    }
    build = world.build(new_job(secrets=("TOKEN",)))
    job = world.job(build)
    with pytest.raises(SecretNotFound):
        storage.job_secrets.resolve(build, job)
    assert storage.job_secrets.current(build, job) == {}
    assert storage.job_secrets.unchanged(build, job) is None
    given: list[object] = []
    storage.job_secrets.resolve(build, job, lambda sources: given.append(sources) or {"TOKEN": "fetched"})
    assert given == [{"TOKEN": made.source}]
    assert storage.secrets.open_all() == 1
    assert storage.secrets.put(of_all, "TOKEN", VALUE).source is None
    assert storage.job_secrets.current(build, job) == {"TOKEN": VALUE}


def test_disks_beside_secrets_from_elsewhere_are_of_one_ref(storage: Storage, world: World, of_all: SecretScope):
    """A role there may be for one branch alone, which nobody here knows."""
    main, topic = (world.build(verified_ref=f"refs/heads/{each}") for each in ("main", "topic"))
    assert storage.job_secrets.shared_with(main) == storage.job_secrets.shared_with(topic) == ""
    storage.secrets.put_source(of_all, "TOKEN", SOURCE)
    assert storage.job_secrets.shared_with(main) != storage.job_secrets.shared_with(topic)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "file"},
        {"url": "ftp://vault.example.org"},
        {"url": "https://user:pass@vault.example.org"},
        {"url": "https://[::1"},
        {"url": "https://vault.example.org:99999"},
        {"url": "https://vault.example.org/#x"},
        {"path": "../sys/raw"},
        {"path": "team/web?version=1"},
        {"path": "team/%2e%2e"},
        {"mount": "a//b"},
        {"auth_mount": "/jwt"},
        {"role": "a role"},
        {"role": ""},
        {"field": "é"},
        {"token": "hunter2"},
        {"kind": "http"},
    ],
)
def test_a_wrong_source_is_refused(storage: Storage, of_all: SecretScope, changes: dict[str, str]):
    with pytest.raises(SecretInvalid, match=r"^source: "):
        storage.secrets.put_source(of_all, "TOKEN", {**SOURCE, **changes})
    assert storage.secrets.names(of_all) == []
