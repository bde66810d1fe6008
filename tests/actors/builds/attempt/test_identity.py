"""The identity token of a job, as services that trust this one look at it."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from actors.builds.attempt.identity import TokenTerms, claims_of, is_identified
from actors.ir import IrSettings, load
from storage import Build, Job, NewBuild, Storage, VerifiedEvent, pull_request_ref
from tests.actors.conftest import Host
from tests.clock import ManualClock
from tests.records import new_pipeline
from tests.storage.world import World

ISSUER, AUDIENCE = "https://ci.example.org", "sts.amazonaws.com"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OF_MAIN = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}
IR = json.dumps({"version": "1", "jobs": {"deploy": {"run": "x", "identity": {"audience": AUDIENCE}}}})


class Refused(Exception):
    """A consumer does not take a token."""


def number(text: str) -> int:
    return int.from_bytes(decoded(text))


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def consumed(
    token: str,
    keys: list[Any],
    *,
    at: float,
    issuer: str = ISSUER,
    audience: str = AUDIENCE,
    subject: str = "",
    **bound: object,
) -> dict[str, Any]:
    """Return the claims of a token that a consumer takes, which checks what clouds say they check.

    They are the signature by a published RSA key, the issuer, the audience and the subject as a whole, the times, and
    what other claims are ``bound`` to.
    """
    header, payload, signature = token.split(".")
    named = json.loads(decoded(header))
    key = next((each for each in keys if each["kid"] == named["kid"] and named["alg"] == each["alg"] == "RS256"), None)
    if key is None:
        raise Refused("key")
    public = RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
    try:
        public.verify(decoded(signature), f"{header}.{payload}".encode(), PKCS1v15(), SHA256())
    except InvalidSignature:
        raise Refused("signature") from None
    claims: dict[str, Any] = json.loads(decoded(payload))
    if claims["iss"] != issuer or claims["aud"] != audience or claims["sub"] != (subject or claims["sub"]):
        raise Refused("claims")
    if any(claims.get(name) != value for name, value in bound.items()):
        raise Refused("bound claims")
    if not claims["nbf"] <= at < claims["exp"] or claims["exp"] - claims["iat"] > 3600:
        raise Refused("times")
    return claims


@pytest.fixture
def world(storage: Storage, clock: ManualClock) -> World:
    return World(storage, clock, new_pipeline(storage))


@pytest.fixture
def token(storage: Storage, world: World) -> str:
    """Return the token of a job of main."""
    return signed(storage, *identified(world, **OF_MAIN))


def identified(world: World, *, environment: str | None = None, **fields: Any) -> tuple[Build, Job]:
    (planned,) = load(IR, IrSettings()).jobs
    build = world.build(replace(planned, environment=environment), **fields)
    return build, world.job(build)


def claims(build: Build, job: Job, seconds: int = 600) -> dict[str, Any]:
    terms = TokenTerms(ISSUER, "a-name", AT, seconds)
    return claims_of(build, job, terms, repository="https://git.example/acme/web", runner="sandbox")


def signed(storage: Storage, build: Build, job: Job) -> str:
    return storage.issuer_keys.signed(claims(build, job))


def test_the_commit_of_a_merge_is_the_merge(world: World):
    build, job = identified(world, **OF_MAIN, base_commit="ba5e", merge_commit="4e7d")
    found = claims(build, job)
    assert (found["commit"], found["head_commit"], found["base_commit"]) == ("4e7d", build.commit, "ba5e")


def test_a_job_of_a_branch_says_all_of_itself(world: World):
    build, job = identified(world, **OF_MAIN, environment="production")
    assert claims(build, job) == {
        "iss": ISSUER,
        "sub": "organization:acme:pipeline:web:ref:refs/heads/main:environment:production",
        "aud": AUDIENCE,
        "iat": 1767323045,
        "nbf": 1767323045,
        "exp": 1767323645,
        "jti": "a-name",
        "organization": "acme",
        "pipeline": "web",
        "build_number": 1,
        "build_id": build.external_id,
        "job": "deploy",
        "job_id": job.uuid,
        "attempt": 0,
        "event": "push",
        "fork": False,
        "runner": "sandbox",
        "environment": "production",
        "repository": "https://git.example/acme/web",
        "ref": "refs/heads/main",
        "ref_type": "branch",
        "commit": "c0ffee",
    }
    assert claims(build, job, seconds=86_400)["exp"] == 1767323045 + 3600


@pytest.mark.parametrize(
    ("fields", "end", "kind"),
    [
        ({"verified_event": VerifiedEvent.TAG, "verified_ref": "refs/tags/main"}, "ref:refs/tags/main", "tag"),
        ({"verified_ref": pull_request_ref(7), "from_fork": True}, "ref:refs/pull/7/head", "pull_request"),
        ({"verified_ref": "refs/heads/a:environment:b"}, "ref:refs/heads/a%3Aenvironment%3Ab", "branch"),
        ({"env": {"CI_EVENT": "push"}, "source": "webhook"}, "unverified", None),
    ],
)
def test_a_subject_says_only_what_is_verified(world: World, fields: dict[str, Any], end: str, kind: str | None):
    """A request that names the branch main and a commit of it has neither in its token."""
    found = claims(*identified(world, **fields))
    assert found["sub"] == f"organization:acme:pipeline:web:{end}"
    assert found.get("ref_type") == kind
    assert found["fork"] is fields.get("from_fork", False)
    assert {"ref", "commit", "repository"} & found.keys() == ({"ref", "commit", "repository"} if kind else set())


def test_a_consumer_takes_a_token(storage: Storage, token: str):
    found = consumed(token, [*storage.issuer_keys.public()], at=AT.timestamp())
    assert (found["ref"], found["aud"]) == ("refs/heads/main", AUDIENCE)


def test_a_consumer_refuses_what_is_not_for_it(storage: Storage, world: World, token: str):
    keys, at = [*storage.issuer_keys.public()], AT.timestamp()
    subject = "organization:acme:pipeline:web:ref:refs/heads/main"
    assert consumed(token, keys, at=at, subject=subject)
    of_branch = signed(storage, *identified(world, verified_ref="refs/heads/topic"))
    header, payload, signature = of_branch.split(".")
    forged = f"{header}.{token.split('.')[1]}.{signature}"
    for bad, how in (
        (token, {"at": at + 600}),
        (token, {"at": at - 1}),
        (token, {"at": at, "audience": "api://AzureADTokenExchange"}),
        (of_branch, {"at": at, "subject": subject}),
        (forged, {"at": at}),
        (f"{header}.{payload}.", {"at": at}),
    ):
        with pytest.raises(Refused):
            consumed(bad, keys, **how)  # type: ignore[arg-type]


def test_a_token_is_of_one_attempt_of_one_build(storage: Storage, world: World):
    """Another build of the ref has its subject, and so has the job that runs again; other claims tell."""
    keys, at = [*storage.issuer_keys.public()], AT.timestamp()
    build, job = identified(world, **OF_MAIN)
    bound = {"build_id": build.external_id, "job_id": job.uuid, "attempt": 1}
    of_job = signed(storage, build, replace(job, attempt=1))
    subject = consumed(of_job, keys, at=at, **bound)["sub"]
    others = {
        "attempt": signed(storage, build, replace(job, attempt=2)),
        "build_id": (of_another := signed(storage, *identified(world, **OF_MAIN))),
        "job_id": of_another,
    }
    for name, other in others.items():
        assert consumed(other, keys, at=at, subject=subject)
        with pytest.raises(Refused, match="bound claims"):
            consumed(other, keys, at=at, subject=subject, **{name: bound[name]})


def test_another_organization_has_other_subjects(storage: Storage, world: World):
    """Its pipeline, repository and refs may have the same names, and its own may begin as another's does."""
    keys, at = [*storage.issuer_keys.public()], AT.timestamp()
    subject = consumed(signed(storage, *identified(world, **OF_MAIN)), keys, at=at)["sub"]
    for name in ("Acme Corp", "Acm"):
        theirs = signed(storage, *identified(world, pipeline=world.other_pipeline(name), **OF_MAIN))
        assert consumed(theirs, keys, at=at)["pipeline"] == "web"
        for bound in ({"subject": subject}, {"organization": "acme"}):
            with pytest.raises(Refused):
                consumed(theirs, keys, at=at, **bound)  # type: ignore[arg-type] # by names
        assert not consumed(theirs, keys, at=at)["sub"].startswith("organization:acme:")


@pytest.mark.sandbox
def test_a_token_ends_with_the_time_of_its_job(host: Host):
    run = "printf %s $CI_IDENTITY_TOKEN | rev"
    only = {"run": run, "identity": {"audience": AUDIENCE}, "timeout": "2m"}
    build = host.finish(host.build(json.dumps({"version": "1", "jobs": {"only": only}})))
    token = host.log(build).decode().splitlines()[-1][::-1]
    keys, begun = [*host.storage.issuer_keys.public()], json.loads(decoded(token.split(".")[1]))["iat"]
    issuer = host.settings.base_url
    assert consumed(token, keys, at=begun + 119, issuer=issuer)["job"] == "only"
    with pytest.raises(Refused, match="times"):
        consumed(token, keys, at=begun + 120, issuer=issuer)
    with pytest.raises(Refused, match=r"^claims"):
        consumed(token, keys, at=begun)


def test_an_untrusted_fork_is_nobody(world: World):
    assert is_identified(*identified(world))
    assert not is_identified(*identified(world, untrusted_origin="pull/1/7", from_fork=True))
    build, job = identified(world)
    assert not is_identified(build, replace(job, identity_audience=None))


@pytest.mark.sandbox
def test_a_command_has_its_token_and_its_log_has_none(host: Host):
    run = 'printf %s "$CI_IDENTITY_TOKEN" | rev; echo; echo "[$CI_IDENTITY_TOKEN]"'
    ir = json.dumps({"version": "1", "jobs": {"only": {"run": run, "identity": {"audience": AUDIENCE}}}})
    logs = {}
    for origin in (None, "pull/1/7"):
        new = NewBuild("main", "c0ffee", pipeline_ir=ir, untrusted_origin=origin, **OF_MAIN)  # type: ignore[arg-type]
        build = host.storage.builds.create(host.pipeline, new, load(ir, IrSettings()).jobs)
        host.engine.jobs_added(build.id)
        assert host.finish(build).state == "passed"
        logs[origin] = host.log(build).decode().splitlines()
    backwards, masked = logs[None]
    assert masked == "[***]"
    found = json.loads(decoded(backwards[::-1].split(".")[1]))
    assert found["sub"] == f"organization:{build.organization_slug}:pipeline:{build.pipeline_slug}:ref:refs/heads/main"
    assert found["iss"] == host.settings.base_url
    assert logs["pull/1/7"][0].endswith("so it runs without an identity token")
    assert logs["pull/1/7"][-1] == "[]"
