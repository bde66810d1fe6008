"""Forgejo, GitLab and Bitbucket at one address, each with a repository, and what they report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.forges.bitbucket import ANN, WEB, BitbucketServer
from tests.forges.deliveries import changed, document
from tests.forges.forgejo import ForgejoServer
from tests.forges.gitlab import GitLabServer
from tests.forges.server import Asked, Reply

Kind: TypeAlias = Literal["forgejo", "gitlab", "bitbucket"]
Report: TypeAlias = tuple[dict[str, str], bytes]
"""The headers and the body of a delivery."""

EVE = "{0e7e7e7e-4a5c-4e2a-9b0e-0d1f8a1b2c3d}"
FORK = "{f0f0f0f0-3421-46c9-9d48-90745f7bfe8e}"


@dataclass
class AllHosts:
    """Three hosts at one address; ann may push to their repositories, eve may not."""

    forgejo: ForgejoServer = field(default_factory=ForgejoServer)
    gitlab: GitLabServer = field(default_factory=GitLabServer)
    bitbucket: BitbucketServer = field(default_factory=lambda: BitbucketServer("team", {WEB: "web"}))

    def answer(self, asked: Asked) -> Reply:
        if asked.path.startswith("/api/v4/"):
            return self.gitlab.answer(asked)
        return (self.bitbucket if asked.path.startswith(("/2.0/", "/site/")) else self.forgejo).answer(asked)

    def path(self, kind: Kind) -> str:
        """Return the path of the repository."""
        return {"forgejo": self.forgejo.path, "gitlab": self.gitlab.path, "bitbucket": "team/web"}[kind]

    def fork(self, kind: Kind, number: int) -> tuple[str, str]:
        """Return the path and the ref at which the commits of a pull request from a fork are found."""
        match kind:
            case "forgejo":
                return self.forgejo.path, f"refs/pull/{number}/head"
            case "gitlab":
                return self.gitlab.path, f"refs/merge-requests/{number}/head"
            case "bitbucket":
                return "eve/web", f"refs/heads/change-{number}"

    def push(self, kind: Kind, ref: str, old: str, new: str) -> Report:
        """Return the report of a push."""
        moved = {"ref": ref, "before": old, "after": new}
        match kind:
            case "forgejo":
                body = json.dumps({**moved, "repository": {"id": self.forgejo.id}, "pusher": {"login": "ann"}}).encode()
                return self.forgejo.headers("push", body, new), body
            case "gitlab":
                body = json.dumps({**moved, "project": {"id": self.gitlab.id}, "user_username": "ann"}).encode()
                return self.gitlab.headers("Push Hook", new), body
            case "bitbucket":
                head = {"type": "branch", "name": ref.removeprefix("refs/heads/"), "target": {"hash": new}}
                pushed = {"changes": [{"old": {**head, "target": {"hash": old}}, "new": head}]}
                repository = {"uuid": WEB, "full_name": "team/web"}
                body = json.dumps({"repository": repository, "push": pushed, "actor": {"nickname": "ann"}}).encode()
                return self.bitbucket.headers("repo:push", body, request=new), body

    def show_open(self, kind: Kind, number: int, author: Literal["ann", "eve"], commit: str) -> None:
        """Let a pull request from a fork be open."""
        if kind == "gitlab":
            change = document("gitlab-open-merge-request")
            change |= {"iid": number, "sha": commit, "target_branch": "main", "target_project_id": self.gitlab.id}
            self.gitlab.pulls.insert(0, change | {"author": {"id": 51, "username": author}})
            return
        delivery = json.loads(self._opened(kind, number, author, commit))
        if kind == "forgejo":
            self.forgejo.pulls.insert(0, delivery["pull_request"])
        else:
            self.bitbucket.pulls.insert(0, delivery["pullrequest"])

    def pull_request(self, kind: Kind, number: int, author: Literal["ann", "eve"], commit: str) -> Report:
        """Return the report of a new pull request from a fork, as the host's documentation has it."""
        body = self._opened(kind, number, author, commit)
        match kind:
            case "forgejo":
                return self.forgejo.headers("pull_request", body, commit), body
            case "gitlab":
                return self.gitlab.headers("Merge Request Hook", commit), body
            case "bitbucket":
                return self.bitbucket.headers("pullrequest:created", body, request=commit), body

    def _opened(self, kind: Kind, number: int, author: Literal["ann", "eve"], commit: str) -> bytes:
        changes: dict[str, Any]
        match kind:
            case "forgejo":
                pull, who = "pull_request", {"login": author}
                changes = {"repository.id": self.forgejo.id, f"{pull}.base.repo.id": self.forgejo.id, "sender": who}
                changes |= {f"{pull}.number": number, f"{pull}.user": who}
                changes |= {f"{pull}.head.sha": commit, f"{pull}.base.ref": "main"}
                return changed("forgejo-pull-request", changes)
            case "gitlab":
                merge = "object_attributes"
                changes = {"project.id": self.gitlab.id, f"{merge}.target_project_id": self.gitlab.id}
                changes |= {f"{merge}.iid": number, f"{merge}.author_id": 51, "user": {"id": 51, "username": author}}
                changes |= {f"{merge}.last_commit.id": commit, f"{merge}.target_branch": "main"}
                return changed("gitlab-merge-request", changes)
            case "bitbucket":
                pull, account = "pullrequest", {"nickname": author, "uuid": ANN if author == "ann" else EVE}
                changes = {"repository.uuid": WEB, "repository.full_name": "team/web", "actor": account}
                changes |= {f"{pull}.id": number, f"{pull}.author": account}
                changes |= {f"{pull}.source.commit.hash": commit[:12], f"{pull}.destination.branch.name": "main"}
                changes |= {f"{pull}.source.repository": {"uuid": FORK, "full_name": "eve/web"}}
                changes |= {f"{pull}.source.branch.name": f"change-{number}"}
                return changed("bitbucket-pull-request", changes)

    def told(self, kind: Kind, commit: str) -> list[tuple[str, str]]:
        """Return the states that a pipeline of a commit was shown in, oldest first, and their descriptions."""
        of_all = {
            "forgejo": self.forgejo.statuses,
            "gitlab": self.gitlab.statuses,
            "bitbucket": self.bitbucket.statuses,
        }
        key = "commit" if kind == "bitbucket" else "sha"
        named = [(each.get("context") or each.get("name") or each["key"], each) for each in of_all[kind]]
        return [
            (each["state"], each["description"])
            for name, each in named
            if each[key] == commit and name.startswith("ci/")
        ]

    def secret(self, kind: Kind) -> str:
        """Return the token that the service was given."""
        tokens = {"forgejo": self.forgejo.token, "gitlab": self.gitlab.token, "bitbucket": self.bitbucket.access_token}
        return tokens[kind]
