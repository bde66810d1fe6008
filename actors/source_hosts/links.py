"""Addresses of a repository's pages at its source host. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from storage import immutable

if TYPE_CHECKING:
    from storage import Repository


@immutable
class _Paths:
    """The paths of pages below that of a repository, each followed by a name."""

    commit: str
    branch: str
    pull_request: str


_OF_PROVIDER = {
    "github": _Paths("commit", "tree", "pull"),
    "forgejo": _Paths("commit", "src/branch", "pulls"),
    "gitea": _Paths("commit", "src/branch", "pulls"),
    "gitlab": _Paths("-/commit", "-/tree", "-/merge_requests"),
    "bitbucket": _Paths("commits", "branch", "pull-requests"),
}


@immutable
class HostPages:
    """The pages of one repository. ``url`` is its own, without a user and a password."""

    url: str
    _paths: _Paths

    @classmethod
    def of(cls, repository: Repository | None) -> HostPages | None:
        """Return the pages of a repository; None if its host has none that are known."""
        if repository is None:
            return None
        paths, url = _OF_PROVIDER.get(repository.provider), urlsplit(repository.url)
        if paths is None or url.scheme not in {"http", "https"} or url.hostname is None:
            return None
        place = f"{url.hostname}:{url.port}" if url.port else url.hostname
        path = quote(url.path.rstrip("/").removesuffix(".git"), safe="/%+~@:")
        return cls(f"{url.scheme}://{place}{path}", paths)

    def commit(self, commit: str) -> str:
        """Return the address of a commit."""
        return f"{self.url}/{self._paths.commit}/{quote(commit, safe='')}"

    def branch(self, branch: str) -> str:
        """Return the address of a branch."""
        return f"{self.url}/{self._paths.branch}/{quote(branch)}"

    def pull_request(self, number: int) -> str:
        """Return the address of a pull request."""
        return f"{self.url}/{self._paths.pull_request}/{number}"
