"""GitLab for tests.

https://docs.gitlab.com/api/projects/, and there `commits`, `project_webhooks`, `members` and `merge_requests`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.forges.server import Asked, Reply

MISSING = Reply(404, {"message": "404 Project Not Found"})


@dataclass
class GitLabServer:
    """One project, the token of its maintainer, and what was made there."""

    token: str = "glpat-token"
    path: str = "acme/tools/web"
    id: int = 15
    access_level: int = 40
    members: dict[str, int] = field(default_factory=lambda: {"ann": 30, "bob": 20})
    hooks: dict[int, dict[str, Any]] = field(default_factory=dict)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    """The open merge requests, the one that changed last first."""

    def answer(self, asked: Asked) -> Reply:
        if not asked.path.startswith("/api/v4/"):
            return Reply(404, b"<html>", {"Content-Type": "text/html"})
        if asked.headers.get("PRIVATE-TOKEN") != self.token:
            return Reply(401, {"message": "401 Unauthorized"})
        path = asked.path.removeprefix("/api/v4/")
        if path == "version":
            return Reply(200, {"version": "18.0.1-ee", "revision": "6d6ae2a1d2c"})
        if path == "user":
            return Reply(200, {"id": 1, "username": "ci-bot", "state": "active"})
        if path == f"projects/{quote(self.path, safe='')}":
            return Reply(200, self._project())
        below = path.removeprefix(f"projects/{self.id}/")
        return MISSING if below == path else self._of_project(asked, below)

    def _of_project(self, asked: Asked, below: str) -> Reply:
        match asked.method, below.split("/"):
            case "GET", ["hooks"]:
                return Reply(200, list(self.hooks.values()))
            case "POST", ["hooks"]:
                number = max(self.hooks, default=0) + 1
                self.hooks[number] = {"id": number, **asked.body}
                return Reply(201, {"id": number, "url": asked.body["url"]})
            case "DELETE", ["hooks", number]:
                return MISSING if self.hooks.pop(int(number), None) is None else Reply(204)
            case "GET", ["members", "all"]:
                found = [name for name in self.members if asked.query["query"] in name]
                return Reply(
                    200, [{"username": each, "state": "active", "access_level": self.members[each]} for each in found]
                )
            case "GET", ["merge_requests"]:
                asks = {key: asked.query[key] for key in ("state", "order_by", "sort")}
                assert asks == {"state": "opened", "order_by": "updated_at", "sort": "desc"}
                return Reply(200, self.pulls[: int(asked.query["per_page"])])
            case "GET", ["merge_requests", number]:
                return next((Reply(200, each) for each in self.pulls if each["iid"] == int(number)), MISSING)
            case "POST", ["statuses", commit]:
                return self._set_status({"sha": commit, **asked.body})
        return MISSING

    def _set_status(self, status: dict[str, Any]) -> Reply:
        """Refuse a state that comes again before the end, as earlier releases do.

        After the end a status is a new one, of any state.

        https://gitlab.com/gitlab-org/gitlab-foss/-/issues/25807
        """
        before = [each for each in self.statuses if (each["sha"], each["name"]) == (status["sha"], status["name"])]
        if before and before[-1]["state"] == status["state"] in {"pending", "running"}:
            return Reply(400, {"message": "Cannot transition status via :enqueue from :pending (Reason(s): …)"})
        self.statuses.append(status)
        return Reply(201, {"id": len(self.statuses), "status": status["state"]})

    def _project(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path_with_namespace": self.path,
            "default_branch": "main",
            "visibility": "private",
            "http_url_to_repo": "http://169.254.169.254/latest/meta-data",
            "permissions": {"project_access": None, "group_access": {"access_level": self.access_level}},
        }

    def headers(self, event: str, delivery_id: str = "13792a34-cac6-4fda-95a8-c58e00a3954e") -> dict[str, str]:
        """Return the headers of a delivery."""
        secret = next(iter(self.hooks.values()))["token"]
        return {"X-Gitlab-Event": event, "X-Gitlab-Token": secret, "Idempotency-Key": delivery_id}
