"""GitHub, as its documentation says that it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from api.sign_in.providers.settings import GithubSettings
from tests.identity.local_server import Asked, LocalServer, Reply


def address(email: str, *, primary: bool = False, verified: bool = True) -> dict[str, Any]:
    return {"email": email, "primary": primary, "verified": verified, "visibility": None}


@dataclass
class Github:
    """GitHub: one person, and the code and the page of that person's sign-in."""

    server: LocalServer
    code: str = "good"
    redirect_uri: str = "https://ci.example.org/login/callback"
    user: Any = field(default_factory=lambda: {"id": 583231, "login": "bea", "name": "Bea", "email": None})
    emails: Any = field(default_factory=lambda: [address("old@example.org"), address("bea@example.org", primary=True)])

    def __post_init__(self) -> None:
        self.server.answers |= {
            "/github/access_token": self._token,
            "/github/user": lambda asked: self._api(asked, self.user),
            "/github/user/emails": lambda asked: self._api(asked, self.emails),
        }

    @property
    def settings(self) -> GithubSettings:
        url = self.server.url
        return GithubSettings(
            client_id="Iv1.8a61f9b3",
            client_secret="secret",
            token_url=f"{url}/github/access_token",
            userinfo_url=f"{url}/github/user",
            emails_url=f"{url}/github/user/emails",
        )

    def _token(self, asked: Asked) -> Reply:
        """Answer in a form unless JSON is asked for, and with status 200 also to a bad code."""
        expected = {"client_id": "Iv1.8a61f9b3", "client_secret": "secret", "redirect_uri": self.redirect_uri}
        if {key: asked.form.get(key) for key in expected} != expected:
            answer = {"error": "incorrect_client_credentials"}
        elif asked.form["code"] != self.code:
            answer = {"error": "bad_verification_code", "error_description": "<b>The code is incorrect</b>"}
        else:
            answer = {"access_token": "gho_16C7e42F292c6912E7", "scope": "user:email", "token_type": "bearer"}
        if asked.headers.get("Accept") == "application/json":
            return Reply(answer)
        return Reply(urlencode(answer).encode(), headers={"Content-Type": "application/x-www-form-urlencoded"})

    def _api(self, asked: Asked, answer: object) -> Reply:
        if not asked.headers.get("User-Agent"):
            return Reply({"message": "Request forbidden by administrative rules"}, 403)
        if asked.headers.get("Authorization") != "Bearer gho_16C7e42F292c6912E7":
            return Reply({"message": "Requires authentication"}, 401)
        return Reply(answer)
