"""The service as an issuer of identity tokens (OpenID Connect Discovery), and the keys of provenance."""

from __future__ import annotations

from typing import Any

from api.operations.operation import ANYBODY, GET, Call, operation
from storage import example, immutable

_WELL_KNOWN = "/.well-known"
_KEYS = f"{_WELL_KNOWN}/jwks.json"
_PROVENANCE_KEYS = f"{_WELL_KNOWN}/provenance-keys.json"
_CLAIMS = (
    "iss", "sub", "aud", "exp", "iat", "nbf", "jti", "organization", "pipeline", "build_number", "build_id", "job",
    "job_id", "attempt", "event", "fork", "runner", "environment", "repository", "ref", "ref_type", "commit",
    "head_commit", "base_commit",
)  # fmt: skip


@immutable
class IssuerRecord:
    """The document of OpenID Connect Discovery; no one signs in here with it."""

    issuer: str = example("https://ci.example.org")
    jwks_uri: str = example(f"https://ci.example.org{_KEYS}")
    response_types_supported: tuple[str, ...] = example(["id_token"])
    subject_types_supported: tuple[str, ...] = example(["public"])
    id_token_signing_alg_values_supported: tuple[str, ...] = example(["RS256"])
    scopes_supported: tuple[str, ...] = example(["openid"])
    claims_supported: tuple[str, ...] = example(["sub", "aud", "ref"])


@immutable
class KeyRecord:
    """A public RSA key as a JWK."""

    kty: str = example("RSA")
    kid: str = example("0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e")
    use: str = example("sig")
    alg: str = example("RS256")
    n: str = example("0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc")
    e: str = example("AQAB")


@immutable
class KeySetRecord:
    """A set of public keys (RFC 7517)."""

    keys: tuple[KeyRecord, ...]


@operation("getIssuer", GET, f"{_WELL_KNOWN}/openid-configuration", "The document.", callers=ANYBODY)
def get_issuer(call: Call) -> IssuerRecord:
    """Describe the service as the issuer of its jobs' identity tokens, for services that trust them."""
    url = call.service.url
    return IssuerRecord(
        issuer=url,
        jwks_uri=f"{url}{_KEYS}",
        response_types_supported=("id_token",),
        subject_types_supported=("public",),
        id_token_signing_alg_values_supported=("RS256",),
        scopes_supported=("openid",),
        claims_supported=_CLAIMS,
    )


@operation("listIssuerKeys", GET, _KEYS, "The keys.", callers=ANYBODY)
def list_issuer_keys(call: Call) -> KeySetRecord:
    """List the public keys of identity tokens.

    They are the one that signs, the next one, and those whose tokens still live.
    """
    return _key_set(call.storage.issuer_keys.public())


@operation("listProvenanceKeys", GET, _PROVENANCE_KEYS, "The keys.", callers=ANYBODY)
def list_provenance_keys(call: Call) -> KeySetRecord:
    """List the public keys by which provenance of artifacts is verified.

    They are all that ever signed, for an artifact may be older than the keys of today's tokens.
    """
    return _key_set(call.storage.issuer_keys.ever_public())


def _key_set(found: Any) -> KeySetRecord:  # noqa: ANN401 - JWKs, whose members all records have
    return KeySetRecord(tuple(KeyRecord(**{name: each[name] for name in KeyRecord.__annotations__}) for each in found))
