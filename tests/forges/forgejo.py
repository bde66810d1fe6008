"""Forgejo or Gitea for tests.

https://codeberg.org/api/swagger, https://forgejo.org/docs/latest/user/webhooks/,
https://forgejo.org/docs/latest/user/protection/
"""

from __future__ import annotations

import hashlib
import hmac
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forges.server import Asked, Reply

DELIVERY = "f6266f16-1bf3-46a5-9ea4-602e06ead473"
MISSING = Reply(404, {"message": "The target couldn't be found."})


@dataclass
class ForgejoServer:
    """One repository, the token of its administrator, and what was made there."""

    provider: str = "forgejo"
    token: str = "fj-token"
    root: str = ""
    path: str = "acme/web"
    id: int = 35
    admin: bool = True
    collaborators: dict[str, str] = field(default_factory=lambda: {"ann": "write", "bob": "read"})
    hooks: dict[int, dict[str, Any]] = field(default_factory=dict)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    """The open pull requests, the one that changed last first."""

    protections: list[dict[str, Any]] = field(default_factory=list)
    bare: Path | None = None
    """The git repository, whose branches move as pull requests are merged."""

    def answer(self, asked: Asked) -> Reply:
        path = asked.path.removeprefix(self.root)
        if path == asked.path and self.root:
            return MISSING
        if path == "/api/forgejo/v1/version" and self.provider != "forgejo":
            return MISSING
        if path in {"/api/forgejo/v1/version", "/api/v1/version"}:
            return Reply(200, {"version": "12.0.1+gitea-1.22.0"})
        if not path.startswith("/api/v1/"):
            return MISSING
        if asked.headers.get("Authorization") != f"token {self.token}":
            return Reply(401, {"message": "user does not exist [uid: 0, name: ]"})
        return self._api(asked, path)

    def _api(self, asked: Asked, path: str) -> Reply:
        below, at = path.removeprefix(f"/api/v1/repos/{self.path}"), f"{asked.method} {path}"
        if at == "GET /api/v1/user":
            return Reply(200, {"id": 1, "login": "ci-bot", "email": "ci@example.org"})
        if below == path:
            return MISSING
        match asked.method, below.strip("/").split("/"):
            case "GET", [""]:
                return Reply(200, self.repository())
            case "GET", ["hooks"]:
                return Reply(200, list(self.hooks.values()) if asked.query.get("page") == "1" else [])
            case "POST", ["hooks"]:
                number = max(self.hooks, default=0) + 1
                self.hooks[number] = {"id": number, **asked.body}
                return Reply(201, self.hooks[number])
            case "DELETE", ["hooks", number]:
                return MISSING if self.hooks.pop(int(number), None) is None else Reply(204)
            case "GET", ["collaborators", login, "permission"]:
                found = self.collaborators.get(login)
                return Reply(200, {"permission": found, "role_name": found}) if found else MISSING
            case "GET", ["pulls"]:
                assert (asked.query["state"], asked.query["sort"]) == ("open", "recentupdate")
                return Reply(200, self.pulls[: int(asked.query["limit"])])
            case "POST", ["statuses", commit]:
                self.statuses.append({"sha": commit, **asked.body})
                return Reply(
                    201, {"id": len(self.statuses), "status": asked.body["state"], "context": asked.body["context"]}
                )
        return self._merging(asked, below.strip("/").split("/"))

    def _merging(self, asked: Asked, below: list[str]) -> Reply:
        match asked.method, below:
            case "GET", ["pulls", number]:
                return next((Reply(200, each) for each in self.pulls if each["number"] == int(number)), MISSING)
            case "POST", ["branch_protections"]:
                self.protections.append(dict(asked.body))
                return Reply(201, self.protections[-1])
            case "POST", ["pulls", number, "merge"]:
                return self._merge(int(number))
        return MISSING

    def _merge(self, number: int) -> Reply:
        """Merge a pull request, unless its target requires a status that its head lacks or that is no success."""
        pull = next((each for each in self.pulls if each["number"] == number), None)
        if pull is None or self.bare is None:
            return MISSING
        head, target = pull["head"]["sha"], pull["base"]["ref"]
        shown = {each["context"]: each["state"] for each in self.statuses if each["sha"] == head}
        rules = [each for each in self.protections if each["rule_name"] == target and each["enable_status_check"]]
        if any(shown.get(each) != "success" for rule in rules for each in rule["status_check_contexts"]):
            why = "not allowed to merge [reason: Not all required status checks successful]"
            return Reply(405, {"message": why})
        subprocess.run(("git", "-C", self.bare, "update-ref", f"refs/heads/{target}", head), check=True)
        self.pulls.remove(pull)
        return Reply(200)

    def repository(self) -> dict[str, Any]:
        """Return the repository, as the API and deliveries have it."""
        owner, _, name = self.path.partition("/")
        return {
            "id": self.id,
            "owner": {"id": 7, "login": owner, "username": owner},
            "name": name,
            "full_name": self.path,
            "private": True,
            "fork": False,
            "html_url": f"http://10.0.0.1:3000/{self.path}",
            "clone_url": f"/etc/{self.path}.git",
            "default_branch": "main",
            "permissions": {"admin": self.admin, "push": True, "pull": True},
        }

    def headers(
        self, event: str, body: bytes, delivery_id: str = "f6266f16-1bf3-46a5-9ea4-602e06ead473"
    ) -> dict[str, str]:
        """Return the headers of a delivery, signed with the secret of the webhook."""
        secret = next(iter(self.hooks.values()))["config"]["secret"]
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        names = ("Forgejo", "Gitea", "Gogs") if self.provider == "forgejo" else ("Gitea", "Gogs")
        signed = {"X-Hub-Signature-256": f"sha256={signature}", "X-Gitea-Signature": signature}
        return signed | {f"X-{each}-{what}": value for each in names for what, value in _of(event, delivery_id).items()}


def _of(event: str, delivery_id: str) -> Mapping[str, str]:
    return {"Event": event, "Delivery": delivery_id}
