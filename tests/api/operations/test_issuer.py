"""The service as the issuer of its jobs' identity tokens."""

from __future__ import annotations

from joserfc import jwt
from joserfc.jwk import KeySet

from tests.api.world import World


def test_a_consumer_finds_the_keys_of_tokens(world: World):
    """By the issuer alone, as OpenID Connect Discovery says, without a token of the API."""
    issuer = "https://ci.example.org"
    found = world.anonymous.simulate_get("/.well-known/openid-configuration")
    assert found.status_code == 200
    assert found.json["issuer"] == issuer
    assert found.json["id_token_signing_alg_values_supported"] == ["RS256"]
    assert found.json["jwks_uri"].startswith(f"{issuer}/.well-known/")
    keys = world.anonymous.simulate_get(found.json["jwks_uri"].removeprefix(issuer))
    token = world.storage.issuer_keys.signed({"sub": "a"})
    assert jwt.decode(token, KeySet.import_key_set(keys.json), algorithms=["RS256"]).claims == {"sub": "a"}
    assert "d" not in keys.json["keys"][0]
