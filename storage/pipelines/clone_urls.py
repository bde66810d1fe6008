"""Clone URLs: the names of repositories in them, and which of them are of one repository. Pure."""

from __future__ import annotations

import re

from storage.patterns import pattern

_HOST = r"(?:[^@/]*@)?(?P<host>\[[^\]/]*\]|[^/:@]*)"
_URL = pattern(rf"[a-z][a-z0-9+.-]*://{_HOST}(?::[^/]*)?/(?P<path>[^?#]*)(?:[?#].*)?", re.IGNORECASE | re.DOTALL)
_SCP = pattern(r"(?:[^@/:]+@)?(?P<host>\[[^\]]+\]|[^/:@]+):(?P<path>[^?#]*)(?:[?#].*)?", re.DOTALL)


def repo_name(repository: str) -> str | None:
    """Return ``owner/repo`` of a clone URL: the last two segments of its path, without ``.git``.

    Accepts URLs (https, ssh, git, with ports and users) and the scp form ``git@host:owner/repo.git``; None if the URL
    does not have two segments (wire-decisions.md, "Pipelines").
    """
    match = _matched(repository)
    owner_and_repo = [] if match is None else [each for each in _segments(match["path"])[-2:] if each]
    return "/".join(owner_and_repo) if len(owner_and_repo) == 2 else None  # noqa: PLR2004 - an owner and a repo


def clone_place(repository: str) -> str | None:
    """Return the place of a repository, which is the same for each of its clone URLs: host and path.

    A path on this host is its own place. None if this is no clone URL, such as ``owner/repo``.
    """
    if repository.startswith("/"):
        return repository
    match = _matched(repository)
    return None if match is None else "/".join((match["host"], *_segments(match["path"]))).casefold()


def _matched(repository: str) -> re.Match[str] | None:
    return _URL.fullmatch(repository.strip()) or _SCP.fullmatch(repository.strip())


def _segments(path: str) -> list[str]:
    segments = [segment for segment in path.split("/") if segment]
    if segments:
        segments[-1] = segments[-1].removesuffix(".git")
    return segments
