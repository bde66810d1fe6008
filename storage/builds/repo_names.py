"""Repository names from clone URLs. Pure."""

from __future__ import annotations

import re

__all__ = ["repo_name"]

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/]+/(?P<path>[^?#]*)(?:[?#].*)?", re.IGNORECASE | re.DOTALL)
_SCP = re.compile(r"(?:[^@/:]+@)?(?:\[[^\]]+\]|[^/:@]+):(?P<path>[^?#]*)(?:[?#].*)?", re.DOTALL)


def repo_name(repository: str) -> str | None:
    """Return ``owner/repo`` of a clone URL: the last two segments of its path, without ``.git``.

    Accepts URLs (https, ssh, git, with ports and users) and the scp form ``git@host:owner/repo.git``; None if the URL
    does not have two segments (wire-decisions.md, "Pipelines, builds, jobs").
    """
    match = _URL.fullmatch(repository.strip()) or _SCP.fullmatch(repository.strip())
    if match is None:
        return None
    segments = [segment for segment in match["path"].split("/") if segment]
    if segments:
        segments[-1] = segments[-1].removesuffix(".git")
    owner_and_repo = [segment for segment in segments[-2:] if segment]
    return "/".join(owner_and_repo) if len(owner_and_repo) == 2 else None  # noqa: PLR2004 - an owner and a repo
