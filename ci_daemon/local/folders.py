"""The folders in which local builds keep their state, below the cache directory of the user.

    ~/.cache/ci-daemon/images            the images of all projects
    ~/.cache/ci-daemon/names             the names that a shell completes
    ~/.cache/ci-daemon/projects/NAME-…   one project: a state directory as a service has one

Each project has a state directory of its own, so that builds of several projects run at once.
"""

from __future__ import annotations

import hashlib
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from storage import immutable, slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "ci-daemon"
_HASH_CHARS = 12


class CacheUnusable(Exception):
    """Nothing can be kept in the cache directory; the message says what to do."""


@immutable
class LocalFolders:
    """The folders of one user; ``cache`` is the cache directory of this program."""

    cache: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> LocalFolders:
        """Return the folders of the user who runs this process. Raises CacheUnusable."""
        given = environ.get("XDG_CACHE_HOME", "")
        cache = (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / _NAME
        _check_owner(cache)
        return cls(cache)

    @property
    def images(self) -> Path:
        """The folder of images, which all projects share."""
        return self.cache / "images"

    @property
    def projects(self) -> Path:
        """The folder of the projects' state directories."""
        return self.cache / "projects"

    @property
    def names(self) -> Path:
        """The file of the names that a shell completes."""
        return self.cache / "names"

    def project(self, tree: Path) -> Path:
        """Return the state directory of the project in a tree."""
        place = tree.resolve()
        digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:_HASH_CHARS]
        return self.projects / f"{slugify(place.name) or 'project'}-{digest}"

    def make(self) -> None:
        """Make the folders, open to their owner only."""
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.cache, self.projects):
            folder.mkdir(mode=0o700, exist_ok=True)


def _check_owner(cache: Path) -> None:
    """Refuse folders of another user: with `sudo`, HOME may still be that of the caller."""
    nearest = next(folder for folder in (cache, *cache.parents) if folder.exists())
    owner, caller = nearest.stat().st_uid, os.geteuid()
    if owner == caller or (caller != 0 and nearest != cache):
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"uid {owner}"
    message = f"{nearest} belongs to {name}: run this as {name}, or set XDG_CACHE_HOME to a folder of your own"
    raise CacheUnusable(message)
