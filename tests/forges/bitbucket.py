"""Bitbucket Cloud for tests.

https://developer.atlassian.com/cloud/bitbucket/rest/ and https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.forges.server import Asked, Reply

MISSING = Reply(404, {"type": "error", "error": {"message": "Repository not found"}})
ANN = "{cfb5bb64-4a5c-4e2a-9b0e-0d1f8a1b2c3d}"
WORKSPACE = "{6e0c0a4c-27f1-4b0a-8a35-111111111111}"
WEB = "{673a6070-3421-46c9-9d48-90745f7bfe8e}"
REQUEST = "93b7b6b3-0a4f-4f6c-9d7c-1f6a2b3c4d5e"
CLIENT = ("client", "client-secret")


@dataclass
class BitbucketServer:
    """One workspace with repositories, the grants of its administrator, and what was made there."""

    slug: str = "acme"
    repositories: dict[str, str] = field(default_factory=lambda: {WEB: "web"})
    administrator: bool = True
    code: str = "a-code"
    refresh_token: str = "refresh"
    access_token: str = "access-1"
    refreshes: int = 0
    permissions: dict[str, str] = field(default_factory=lambda: {ANN: "write"})
    hooks: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """The webhooks by full name and id."""

    statuses: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    """The open pull requests of each repository, the one that changed last first."""

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/site/oauth2/access_token":
            return self._grant(asked)
        if asked.headers.get("Authorization") != f"Bearer {self.access_token}":
            return Reply(401, {"type": "error", "error": {"message": "Access token expired."}})
        path = unquote(asked.path).removeprefix("/2.0/").split("/")
        match asked.method, path:
            case "GET", ["user", "workspaces"]:
                workspace = {"type": "workspace_base", "uuid": WORKSPACE, "slug": self.slug}
                access = {"type": "workspace_access", "administrator": self.administrator, "workspace": workspace}
                return Reply(200, {"values": [access], "pagelen": 100})
            case "GET", ["repositories", workspace] if workspace in {WORKSPACE, self.slug}:
                return self._page(asked, [self.repository(uuid) for uuid in self.repositories])
            case "GET", ["workspaces", self.slug, "permissions", "repositories", _]:
                user = asked.query["q"].removeprefix('user.uuid="').removesuffix('"')
                found = self.permissions.get(user)
                return Reply(200, {"values": [{"permission": found, "user": {"uuid": user}}] if found else []})
            case _, ["repositories", self.slug, name, *below] if name in self.repositories.values():
                return self._of_repository(asked, f"{self.slug}/{name}", below)
        return MISSING

    def _grant(self, asked: Asked) -> Reply:
        client = base64.b64encode(":".join(CLIENT).encode()).decode()
        if asked.headers.get("Authorization") != f"Basic {client}":
            return Reply(401, {"error": "invalid_client"})
        match asked.body:
            case {"grant_type": "authorization_code", "code": self.code}:
                self.code = "used up"
            case {"grant_type": "refresh_token", "refresh_token": self.refresh_token}:
                self.refreshes += 1
                self.access_token = f"access-{self.refreshes + 1}"
            case _:
                return Reply(400, {"error": "invalid_grant", "error_description": "The specified code is not valid."})
        granted = {"access_token": self.access_token, "refresh_token": self.refresh_token, "expires_in": 7200}
        return Reply(200, {**granted, "scopes": "repository:admin webhook", "token_type": "bearer"})

    def _page(self, asked: Asked, values: list[dict[str, Any]]) -> Reply:
        """Return a page of two, with a next address that nobody should call."""
        number = int(asked.query["page"])
        shown = {"values": values[2 * number - 2 : 2 * number]}
        more = {"next": "https://elsewhere.example.org/steal"} if len(values) > 2 * number else {}
        return Reply(200, shown | more)

    def _of_repository(self, asked: Asked, full_name: str, below: list[str]) -> Reply:
        hooks = self.hooks.setdefault(full_name, {})
        match asked.method, below:
            case "GET", ["hooks"]:
                return Reply(200, {"values": list(hooks.values())})
            case "POST", ["hooks"]:
                uuid = f"{{hook-{len(hooks) + 1}}}"
                hooks[uuid] = {"uuid": uuid, **asked.body}
                return Reply(201, {"uuid": uuid, "url": asked.body["url"]})
            case "DELETE", ["hooks", uuid]:
                return MISSING if hooks.pop(uuid, None) is None else Reply(204)
            case "GET", ["pullrequests"]:
                assert (asked.query["state"], asked.query["sort"]) == ("OPEN", "-updated_on")
                assert int(asked.query["pagelen"]) <= 50, "Bitbucket refuses more"
                return Reply(200, {"values": self.pulls[: int(asked.query["pagelen"])]})
            case "GET", ["pullrequests", number]:
                return next((Reply(200, each) for each in self.pulls if each["id"] == int(number)), MISSING)
            case "POST", ["commit", commit, "statuses", "build"]:
                self.statuses.append({"commit": commit, **asked.body})
                return Reply(201, {"key": asked.body["key"]})
        return MISSING

    def repository(self, uuid: str) -> dict[str, Any]:
        """Return a repository, as the API and deliveries have it."""
        name = self.repositories[uuid]
        return {
            "type": "repository",
            "uuid": uuid,
            "full_name": f"{self.slug}/{name}",
            "name": name.title(),
            "slug": name,
            "is_private": True,
            "mainbranch": {"type": "branch", "name": "main"},
            "links": {"clone": [{"name": "https", "href": "https://elsewhere.example.org/steal.git"}]},
        }

    def headers(self, event: str, body: bytes, name: str = "web", request: str = REQUEST) -> dict[str, str]:
        """Return the headers of a delivery, signed with the secret of the repository's webhook."""
        secret = next(iter(self.hooks[f"{self.slug}/{name}"].values()))["secret"]
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return {"X-Event-Key": event, "X-Request-UUID": request, "X-Hub-Signature": f"sha256={signature}"}
