"""Verification of ID tokens (OpenID Connect Core, section 3.1.3.7), by joserfc and Authlib. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet, import_key

from api.sign_in.providers.person import ProviderError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
"""Signatures that only the issuer can make; with HS256, everybody who knows the client secret could."""

_ASYMMETRIC = {"RSA", "EC", "OKP"}
_LEEWAY_SECONDS = 60


class KeyUnknown(ProviderError):
    """None of the keys made the signature; the issuer may have newer ones."""


@immutable
class Expected:
    """The values that an ID token must have."""

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: Collection[str]


def key_set(document: dict[str, Any]) -> KeySet:
    """Return the public keys of a JWKS document, without those that cannot be read.

    Raises ProviderError if none is left.
    """
    told = document.get("keys")
    keys = []
    for each in told if isinstance(told, list) else ():
        if isinstance(each, dict) and each.get("kty") in _ASYMMETRIC and each.get("use", "sig") == "sig":
            try:
                keys.append(import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    if not keys:
        raise ProviderError("the issuer publishes no key for signatures")
    return KeySet(keys)


def verified_claims(id_token: str, keys: KeySet, expected: Expected, now: int) -> dict[str, Any]:
    """Return the claims of an ID token. Raises KeyUnknown or ProviderError."""
    algorithms = sorted(ALGORITHMS & set(expected.algorithms))
    if not algorithms:  # joserfc would take its own defaults
        raise ProviderError("the issuer announces no signature that only it can make")
    try:
        token = jwt.decode(id_token, keys, algorithms=algorithms)
        options = {
            "iss": {"essential": True, "value": expected.issuer},
            "aud": {"essential": True, "value": expected.client_id},
        }
        params = {"client_id": expected.client_id, "nonce": expected.nonce, "access_token": expected.access_token}
        claims = CodeIDToken(token.claims, token.header, options, params)
        claims.validate(now=now, leeway=_LEEWAY_SECONDS)
    except (InvalidKeyIdError, BadSignatureError) as error:
        raise KeyUnknown(f"the ID token is signed with an unknown key: {error.error}") from None
    except JoseError as error:
        raise ProviderError(f"the ID token is not valid: {_short(error)}") from None
    except (ValueError, TypeError, RecursionError):
        raise ProviderError("the ID token is malformed") from None
    return dict(claims)


def _short(error: JoseError) -> str:
    return str(error).splitlines()[0][:100]
