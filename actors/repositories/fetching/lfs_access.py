"""The way to a server of git LFS by ssh: the host says where its HTTP API is, and how to ask it."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from dataclasses import field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from pydantic import ValidationError

from actors.repositories.fetching.authentication import authentication
from actors.repositories.fetching.git import GitError, LimitReached
from actors.vms.watched_process import run
from storage import JsonModel, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.repositories.fetching.mirror import Mirror

_SECONDS = 60.0
_MOST_BYTES = 1 << 16
_SHOWN = 200
_REFUSED_BY_SSH = 255
"""The status of ssh itself; any other is that of the host's program."""


@immutable
class LfsAccess:
    """The URL of an HTTP API of git LFS, and the headers that its requests need."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class _Answer(JsonModel):
    href: str | None = None
    header: dict[str, str] | None = None


def access_by_ssh(mirror: Mirror) -> LfsAccess | None:
    """Return what a host answers to `git-lfs-authenticate`; None if it has no such program.

    Raises GitError.
    """
    remote, deadline = mirror.git.remote, time.monotonic() + min(mirror.seconds, _SECONDS)
    path = unquote(remote.split()[1]) if "://" in remote.url else remote.split()[1]
    command = f"git-lfs-authenticate {shlex.quote(path)} download"
    with tempfile.TemporaryFile() as out, authentication(remote, mirror.credential) as given:

        def check() -> None:
            if time.monotonic() > deadline:
                raise LimitReached(f"{remote.host} does not answer git-lfs-authenticate in time")
            if out.tell() > _MOST_BYTES:
                raise LimitReached(f"{remote.host} answers git-lfs-authenticate with more than {_MOST_BYTES} bytes")

        argv = (*given.ssh, "-p", str(remote.port), "--", remote.ssh_destination, command)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        result = run(argv, cwd=mirror.folder, environment=environment, check=check, stdout=out)
        check()
        out.seek(0)
        answered = out.read()
    if result.status == _REFUSED_BY_SSH:
        raise GitError(f"{remote.host} does not let git-lfs-authenticate run: {result.output.strip()[-_SHOWN:]}")
    if result.status != 0:
        return None
    try:
        answer = _Answer.model_validate_json(answered)
    except ValidationError:
        raise GitError(f"{remote.host} answers git-lfs-authenticate with something else than a URL") from None
    usual = f"https://{remote.host}/{quote(path.strip('/').removesuffix('.git'))}.git/info/lfs"
    return LfsAccess((answer.href or usual).rstrip("/"), answer.header or {})
