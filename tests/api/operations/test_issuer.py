"""The service as the issuer of its jobs' identity tokens."""

from __future__ import annotations

from joserfc import jwt
from joserfc.jwk import KeySet

from actors.builds.attempt.identity import TokenTerms, claims_of
from storage import NewBuild, VerifiedEvent
from tests.api.world import World
from tests.records import new_job, new_pipeline

DISCOVERY = "/.well-known/openid-configuration"


def test_a_consumer_finds_the_keys_of_tokens(world: World):
    """By the issuer alone, as OpenID Connect Discovery and AWS want it, without a token of the API."""
    issuer = "https://ci.example.org"
    found = world.anonymous.simulate_get(DISCOVERY)
    assert found.status_code == 200
    assert found.json["issuer"] == issuer
    assert found.json["id_token_signing_alg_values_supported"] == ["RS256"]
    assert (found.json["response_types_supported"], found.json["subject_types_supported"]) == (["id_token"], ["public"])
    assert found.json["jwks_uri"].startswith(f"{issuer}/.well-known/")
    keys = world.anonymous.simulate_get(found.json["jwks_uri"].removeprefix(issuer))
    token = world.storage.issuer_keys.signed({"sub": "a"})
    assert jwt.decode(token, KeySet.import_key_set(keys.json), algorithms=["RS256"]).claims == {"sub": "a"}
    assert "d" not in keys.json["keys"][0]


def test_each_claim_of_a_token_is_declared(world: World):
    merge = {"base_commit": "ba5e", "merge_commit": "4e7d"}
    new = NewBuild("main", "c0ffee", verified_event=VerifiedEvent.PUSH, verified_ref="refs/heads/main", **merge)
    build = world.storage.builds.create(new_pipeline(world.storage), new, [new_job("deploy", environment="production")])
    (job,) = world.storage.jobs.of_build(build.id)
    terms = TokenTerms("https://ci.example.org", "a-name", world.clock.now(), 60)
    found = claims_of(build, job, terms, repository="https://git.example/acme/web", runner="sandbox")
    assert found.keys() <= set(world.anonymous.simulate_get(DISCOVERY).json["claims_supported"])
