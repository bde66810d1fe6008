"""Addresses of a repository's pages at its source host. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from storage import immutable, pattern

if TYPE_CHECKING:
    from storage import Build, BuildOrigin, Repository


_LOGIN = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


@immutable
class _Paths:
    """The paths of pages below that of a repository, each followed by a name.

    ``by_author`` is the query for the commits of an author, by ``{name}`` or ``{email}``; empty if the host has none.
    With ``people`` a login is a path of the host.
    """

    commit: str
    branch: str
    pull_request: str
    by_author: str = ""
    people: bool = True


_OF_PROVIDER = {
    "github": _Paths("commit", "tree", "pull", by_author="commits/{branch}?author={email}"),
    "forgejo": _Paths("commit", "src/branch", "pulls"),
    "gitea": _Paths("commit", "src/branch", "pulls"),
    "gitlab": _Paths("-/commit", "-/tree", "-/merge_requests", by_author="-/commits/{branch}?author={name}"),
    "bitbucket": _Paths("commits", "branch", "pull-requests", people=False),
}


@immutable
class HostPages:
    """The pages of one repository. ``url`` is its own, without a user and a password."""

    url: str
    _host: str
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
        host = f"{url.scheme}://{place}"
        return cls(f"{host}{path}", host, paths)

    def commit(self, commit: str) -> str:
        """Return the address of a commit."""
        return f"{self.url}/{self._paths.commit}/{quote(commit, safe='')}"

    def branch(self, branch: str) -> str:
        """Return the address of a branch."""
        return f"{self.url}/{self._paths.branch}/{quote(branch)}"

    def pull_request(self, number: int) -> str:
        """Return the address of a pull request."""
        return f"{self.url}/{self._paths.pull_request}/{number}"

    def place(self, branch: str | None, pull_request: int | None) -> str | None:
        """Return the address of a pull request, or else of a branch; None if it is of neither."""
        if pull_request is not None:
            return self.pull_request(pull_request)
        return self.branch(branch) if branch else None

    def person(self, login: str) -> str | None:
        """Return the address of a person; None if the host has no page by this name, as of a bot."""
        return f"{self._host}/{quote(login, safe='')}" if self._paths.people and _LOGIN.fullmatch(login) else None

    def commits_of(self, name: str | None, email: str | None, branch: str | None) -> str | None:
        """Return the address of an author's commits on a branch; None if the host has no such list."""
        asked = self._paths.by_author
        if not asked or not name or not email or not branch:
            return None
        return (
            f"{self.url}/{asked.format(branch=quote(branch), name=quote(name, safe=''), email=quote(email, safe=''))}"
        )


@immutable
class BuildPages:
    """The addresses of what a build is of at its source host; None where it has no page.

    ``number`` is that of its pull request. ``author`` is the list of the author's commits, ``pusher`` a person.
    """

    commit: str | None = None
    branch: str | None = None
    number: int | None = None
    pull_request: str | None = None
    author: str | None = None
    pusher: str | None = None

    @classmethod
    def of(cls, build: Build, repository: Repository | None, origin: BuildOrigin | None) -> BuildPages:
        """Return the addresses for a build of a repository."""
        pages = HostPages.of(repository)
        number = None if origin is None else origin.pull_request
        if pages is None:
            return cls(number=number)
        own_branch = None if build.from_fork else build.branch  # that of a fork is in another repository
        return cls(
            commit=pages.commit(build.commit) if build.commit and build.commit.strip("0") else None,
            branch=pages.branch(own_branch) if own_branch else None,
            number=number,
            pull_request=None if number is None else pages.pull_request(number),
            author=None if origin is None else pages.commits_of(origin.author_name, origin.author_email, own_branch),
            pusher=None if origin is None or origin.actor is None else pages.person(origin.actor),
        )
