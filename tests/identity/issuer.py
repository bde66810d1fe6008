"""An issuer of which a test can change every word, with keys to sign tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from api.sign_in.providers.settings import OidcSettings
from tests.identity.local_server import Asked, LocalServer, Reply

CORP = "/api/v0/auth/oidc/corp"
BODY = {
    "code": "good",
    "redirect_uri": "https://ci.example.org/login/callback",
    "nonce": "n-0S6_WzA2Mj",
    "code_verifier": "a-verifier-of-at-least-43-characters-as-rfc-7636-says",
}
KEY = RSAKey.generate_key(2048, parameters={"kid": "ours", "use": "sig"})
OTHER_KEY = RSAKey.generate_key(2048, parameters={"kid": "ours"})
EC_KEY = ECKey.generate_key("P-256", parameters={"kid": "ec"})
ED_KEY = OKPKey.generate_key("Ed25519", parameters={"kid": "ed"})
MISSING = object()


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed(claims: dict[str, Any], key: Any = KEY, **header: Any) -> str:
    given = {"alg": "RS256", "kid": key.kid, **header}
    return jwt.encode({name: given[name] for name in given if given[name] is not MISSING}, claims, key)


@dataclass
class ScriptedIssuer:
    """An issuer whose every document a test may change; as it is, it says the truth."""

    server: LocalServer
    now: int
    metadata: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    info: Any = field(default_factory=dict)
    keys: Any = field(default_factory=dict)
    tokens: dict[str, Any] = field(default_factory=dict)
    sign: Callable[[dict[str, Any]], object] = signed

    def __post_init__(self) -> None:
        url = self.server.url
        self.metadata = {
            "issuer": url,
            "authorization_endpoint": f"{url}/auth",
            "token_endpoint": f"{url}/token",
            "jwks_uri": f"{url}/jwks",
            "userinfo_endpoint": f"{url}/me",
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA", "HS256", "none"],
            "code_challenge_methods_supported": ["S256", "plain"],
        }
        self.claims = {
            "iss": url,
            "sub": "1001",
            "aud": "ci-daemon",
            "exp": self.now + 300,
            "iat": self.now,
            "nonce": BODY["nonce"],
        }
        self.info = {"sub": "1001", "email": "bea@example.org", "email_verified": True, "name": "Bea"}
        self.keys = KeySet([KEY, EC_KEY, ED_KEY]).as_dict()
        self.server.answers |= {
            "/.well-known/openid-configuration": lambda _: Reply(self.metadata),
            "/jwks": lambda _: Reply(self.keys),
            "/token": self._token,
            "/me": lambda _: Reply(self.info),
        }

    def _token(self, asked: Asked) -> Reply:
        kept = {name: value for name, value in self.claims.items() if value is not MISSING}
        given = {"access_token": "at", "token_type": "Bearer", "id_token": self.sign(kept), **self.tokens}
        return Reply({name: value for name, value in given.items() if value is not MISSING})

    @property
    def settings(self) -> OidcSettings:
        return OidcSettings(issuer=self.server.url, client_id="ci-daemon", client_secret="secret-of-the-client")

    def asked(self, path: str) -> int:
        """Return how often a path was asked for."""
        return sum(each.path == path for each in self.server.seen)
