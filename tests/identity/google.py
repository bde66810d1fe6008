"""Google, as its documentation says that it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from api.sign_in.providers.settings import GoogleSettings
from tests.identity.local_server import Asked, LocalServer, Reply


@dataclass
class Google:
    """Google: one person, and the code and the page of that person's sign-in."""

    server: LocalServer
    code: str = "4/good"
    redirect_uri: str = "https://console.example.org/login/callback"
    claims: Any = field(
        default_factory=lambda: {
            "sub": "110169484474386276334",
            "name": "Bea",
            "email": "bea@example.org",
            "email_verified": True,
        }
    )

    def __post_init__(self) -> None:
        self.server.answers |= {"/google/token": self._token, "/google/userinfo": self._userinfo}

    @property
    def settings(self) -> GoogleSettings:
        url = self.server.url
        return GoogleSettings(
            "id.apps", "secret", token_url=f"{url}/google/token", userinfo_url=f"{url}/google/userinfo"
        )

    def _token(self, asked: Asked) -> Reply:
        expected = {
            "code": self.code,
            "redirect_uri": self.redirect_uri,
            "grant_type": "authorization_code",
            "client_id": "id.apps",
            "client_secret": "secret",
        }
        if {key: asked.form.get(key) for key in expected} != expected:
            return Reply({"error": "invalid_grant", "error_description": "Bad Request"}, 400)
        return Reply({"access_token": "ya29.A0", "expires_in": 3599, "token_type": "Bearer", "id_token": "e.y.J"})

    def _userinfo(self, asked: Asked) -> Reply:
        if asked.headers.get("Authorization") != "Bearer ya29.A0":
            return Reply({"error": "invalid_request"}, 401)
        return Reply(self.claims)
