"""Provenance of artifacts: what the service says of how a file was made, and by which keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from actors.ir import IrSettings, load
from storage import ImageDigests, NewBuild, NewPipeline, Storage, VerifiedEvent
from tests import records
from tests.api.world import Account, World
from tests.clock import ManualClock

OF_TAG = {"verified_event": VerifiedEvent.TAG, "verified_ref": "refs/tags/v1"}


@pytest.fixture
def ada(world: World) -> Account:
    return world.sign_up("ada@example.org")


def asked(
    world: World,
    ada: Account,
    *,
    passed: bool = True,
    image: str | None = None,
    digests: ImageDigests | None = None,
    services: Mapping[str, str] = {},
    **fields: Any,
) -> Any:
    """Return the answer about the artifact of a build with these fields; ``services`` are images by name."""
    beside = {name: {"image": image} for name, image in services.items()}
    ir = json.dumps({"version": "1", "jobs": {"only": {"run": "true", "services": beside}}})
    storage = world.storage
    new = NewPipeline("web", "Web", "https://git.example/acme/web", "main")
    pipeline = storage.pipelines.create(ada.org_id, new)
    build = storage.builds.create(
        pipeline, NewBuild(**{"branch": "main", "commit": "c0ffee", **fields}), load(ir, IrSettings()).jobs
    )
    (job,) = storage.jobs.of_build(build.id)
    if passed:
        lease = records.started(storage, job, digests, **({} if image is None else {"image": image}))
        world.clock.advance(60)
        records.finish(storage, job, lease)
    storage.artifacts.store(build, job, [storage.artifacts.files.write(build.uuid, "dist/app", [b"app"])])
    (kept,) = storage.artifacts.of_job(job.id)
    path = f"{ada.path}/pipelines/web/builds/{build.number}/artifacts/{kept.uuid}/provenance"
    return ada.client.simulate_get(path)


def statement(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    assert answer.json["payloadType"] == "application/vnd.in-toto+json"
    return json.loads(base64.b64decode(answer.json["payload"]))


def test_a_file_that_was_taken_over_is_its_makers(world: World, ada: Account):
    """The statement names the job that made it; if that has another file since, there is none."""
    made, storage = statement(asked(world, ada, **OF_TAG)), world.storage
    first = storage.builds.find(ada.org, "web", 1)
    pipeline = storage.pipelines.by_slug(ada.org_id, "web")
    assert first is not None
    assert pipeline is not None
    (job,) = storage.jobs.of_build(first.id)
    again = storage.builds.create(
        pipeline, NewBuild("main", "c0ffee"), [records.new_job("only", taken=job, taken_from=1)]
    )
    (taken,) = storage.jobs.of_build(again.id)
    storage.artifacts.inherit(job.id, taken.id)
    (kept,) = storage.artifacts.of_job(taken.id)
    path = f"{ada.path}/pipelines/web/builds/2/artifacts/{kept.uuid}/provenance"
    assert statement(ada.client.simulate_get(path)) == made
    storage.artifacts.discard(first, job)
    gone = ada.client.simulate_get(path)
    assert (gone.status_code, gone.json["error"]["code"]) == (409, "artifact_unproven")


def test_it_says_what_made_the_file(world: World, ada: Account):
    found = statement(asked(world, ada, **OF_TAG, inputs={"target": "staging"}))
    build = world.storage.builds.find(ada.org, "web", 1)
    assert build is not None
    (job,) = world.storage.jobs.of_build(build.id)
    definition = found["predicate"].pop("buildDefinition")
    assert definition["externalParameters"] == {
        "organization": ada.org,
        "pipeline": "web",
        "job": "only",
        "event": "tag",
        "inputs": {"target": "staging"},
        "repository": "https://git.example/acme/web",
        "ref": "refs/tags/v1",
        "commit": "c0ffee",
    }
    assert definition["internalParameters"] == {"runner": "sandbox", "image": None, "fork": False}
    assert definition["resolvedDependencies"] == [
        {"uri": "git+https://git.example/acme/web@refs/tags/v1", "digest": {"gitCommit": "c0ffee"}}
    ]
    assert found.pop("predicate")["runDetails"] == {
        "builder": {"id": "https://ci.example.org"},
        "metadata": {
            "invocationId": f"https://ci.example.org/{build.page}/jobs/{job.uuid}/attempts/{job.attempt}",
            "startedOn": moment(job.started_at),
            "finishedOn": moment(job.finished_at),
        },
    }
    assert found == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://slsa.dev/provenance/v1",
        "subject": [
            {
                "name": "dist/app",
                "digest": {"sha256": "a172cedcae47474b615c54d510a5d84a8dea3032e958587430b413538be3f333"},
            }
        ],
    }


def test_the_source_of_a_merge_is_the_merge(world: World, ada: Account):
    merge = {"base_commit": "ba5e", "merge_commit": "4e7d"}
    definition = statement(asked(world, ada, **OF_TAG, **merge))["predicate"]["buildDefinition"]
    given = definition["externalParameters"]
    assert (given["commit"], given["headCommit"], given["baseCommit"]) == ("4e7d", "c0ffee", "ba5e")
    assert [each["digest"] for each in definition["resolvedDependencies"]] == [{"gitCommit": "4e7d"}]


def test_it_names_images_by_their_digests(world: World, ada: Account):
    """A pull by that digest gives what the job or a service ran from; of other images nothing is said."""
    tools, imported = "5f" * 32, "60" * 32
    digests = ImageDigests(
        f"host:5000/acme/tools@sha256:{tools}",
        {"again": f"host:5000/acme/tools@sha256:{tools}", "db": f"sha256:{imported}"},
    )
    services = {"again": "host:5000/acme/tools:1", "db": "database:1", "built": "debian:12"}
    answer = asked(world, ada, image="host:5000/acme/tools:1", digests=digests, services=services, **OF_TAG)
    definition = statement(answer)["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][1:] == [
        {
            "name": "host:5000/acme/tools:1",
            "uri": f"pkg:oci/tools@sha256%3A{tools}?repository_url=host:5000/acme/tools",
            "digest": {"sha256": tools},
        },
        {"name": "database:1", "digest": {"sha256": imported}},
    ]
    build = world.storage.builds.find(ada.org, "web", 1)
    assert build is not None
    (job,) = ada.client.simulate_get(f"{ada.path}/pipelines/web/builds/1/jobs").json["data"]
    assert (job["image_digest"], job["service_image_digests"]) == (digests.image, digests.services)


def moment(at: datetime | None) -> str:
    assert at is not None
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.mark.parametrize(
    "claimed",
    [
        {"source": "webhook", "env": {"CI_EVENT": "push"}},
        {"verified_ref": "refs/heads/main", "verified_event": VerifiedEvent.API},
    ],
)
def test_a_request_claims_no_source(world: World, ada: Account, claimed: dict[str, Any]):
    """Its branch and commit are its own words, also if an admin's secrets are given for them."""
    definition = statement(asked(world, ada, **claimed))["predicate"]["buildDefinition"]
    assert not {"repository", "ref", "commit"} & definition["externalParameters"].keys()
    assert definition["resolvedDependencies"] == []


def test_only_a_job_that_passed_has_some(world: World, ada: Account):
    answer = asked(world, ada, passed=False)
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "artifact_unproven")


def test_its_key_is_public_for_good(world: World, ada: Account, storage: Storage, clock: ManualClock):
    """In a year as today, though no token is signed by that key any more."""
    (signature,) = asked(world, ada, **OF_TAG).json["signatures"]
    for _ in range(14):
        clock.advance(days=31)
        storage.issuer_keys.public()
    keys = world.anonymous.simulate_get("/.well-known/provenance-keys.json").json["keys"]
    assert signature["keyid"] in [each["kid"] for each in keys]
    assert signature["keyid"] not in [each["kid"] for each in storage.issuer_keys.public()]
