"""Releases: virtual environments below ``releases``; the link ``current`` points to one of them."""

from __future__ import annotations

import shutil
import stat
import sys
import time
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.install.host import USER, Host, InstallError
from ci_daemon.install.source import SOURCE_FILE, pip_argument
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection
    from importlib.metadata import Distribution

_PACKAGE = "ci-daemon"
_LOCK = "requirements/run.txt"


@immutable
class Release:
    """A complete release: it has the file that names its source."""

    path: Path

    def __str__(self) -> str:
        return f"{self.version} of {self.path.name}"

    @property
    def command(self) -> Path:
        """Its `ci-daemon`."""
        return self.path / "bin/ci-daemon"

    @property
    def units(self) -> Path:
        """The folder of its systemd units."""
        return self.path / "share/ci-daemon/systemd"

    @property
    def database(self) -> Path:
        """The copy of the database from when this release was last replaced; missing if it never was."""
        return self.path / "ci-daemon.sqlite3"

    @property
    def version(self) -> str:
        """Its version number."""
        return next(each.version for each in self._distributions() if each.name == _PACKAGE)

    @property
    def schema(self) -> int:
        """The number of the newest database schema that it knows."""
        migrations = self._packages().glob("storage/migrations/[0-9]*.sql")
        return max(int(each.name.partition("_")[0]) for each in migrations)

    def contents(self) -> frozenset[tuple[str, str]]:
        """Return its contents: the service's files with their digests, and the versions of all packages."""
        found = list(self._distributions())
        files = next(each.files or [] for each in found if each.name == _PACKAGE)
        return frozenset(
            {("python", self._packages().parent.name), *((each.name, each.version) for each in found)}
            | {(str(file), file.hash.value) for file in files if file.hash and _is_content(str(file))}
        )

    def _packages(self) -> Path:
        return next(self.path.glob("lib/python3*/site-packages"))

    def _distributions(self) -> list[Distribution]:
        return list(distributions(path=[str(self._packages())]))


def current(host: Host) -> Release | None:
    """Return the release that the service starts from, None if there is none."""
    path = host.opt / "current"
    return Release(path.resolve()) if (path / SOURCE_FILE).exists() else None


def previous(host: Host) -> Release | None:
    """Return the release that `--rollback` goes to: the one that was replaced last; None without one."""
    active = current(host)
    candidates = (Release(path.resolve()) for path in host.opt.glob("releases/*") if (path / SOURCE_FILE).exists())
    replaced = [each for each in candidates if each != active and each.database.exists()]
    return max(replaced, key=lambda each: each.database.stat().st_mtime, default=None)


def create(host: Host, source: str) -> Release:
    """Create a release from a source; if it equals the current one, return that one instead.

    Unfinished releases, and those that did not start, are removed first. Raises InstallError.
    """
    require_python_for_all(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    for failed in all_except(host, [each for each in (current(host), previous(host)) if each is not None]):
        shutil.rmtree(failed)
    path = (host.opt / "releases").resolve() / time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        host.run(sys.executable, "-Im", "venv", path)
    except InstallError as error:
        raise InstallError(f"{error}; if ensurepip is missing, run `apt-get install -y python3-venv`") from error
    pip = (path / "bin/python", "-Im", "pip", "--disable-pip-version-check", "--quiet")
    with pip_argument(source) as argument:
        lock = Path(argument, _LOCK)
        if lock.exists():  # in a checkout; a wheel requires the versions that it was tested with
            host.run(*pip, "install", "--require-hashes", "--no-deps", "--requirement", lock)
        host.run(*pip, "install", "--upgrade", argument)
    host.run(path / "bin/python", "-Im", "ci_daemon.manual", path / "share")
    (path / SOURCE_FILE).write_text(f"{source}\n", encoding="utf-8")
    created, active = Release(path), current(host)
    if active is not None and active.contents() == created.contents():
        shutil.rmtree(path)
        return active
    return created


def set_current(host: Host, release: Release) -> None:
    """Make a release the current one, atomically."""
    link = host.opt / "current.new"
    link.unlink(missing_ok=True)
    link.symlink_to(release.path.relative_to(host.opt.resolve()))
    link.replace(host.opt / "current")


def all_except(host: Host, kept: Collection[Release]) -> list[Path]:
    """Return the folders of all other releases, including unfinished ones."""
    paths = {each.path for each in kept}
    return [path for path in sorted(host.opt.glob("releases/*")) if path.resolve() not in paths]


def _is_content(file: str) -> bool:
    """Tell whether a file counts when releases are compared: those that contain the release's path do not."""
    return "/bin/" not in file and not file.endswith("direct_url.json")


def require_python_for_all(python: Path) -> None:
    """Refuse a Python that the service's user could not run, as in a home directory. Raises InstallError."""
    private = next((each for each in (python, *python.parents) if not each.stat().st_mode & stat.S_IXOTH), None)
    if private is not None:
        raise InstallError(
            f"the user {USER} cannot run {python}, because other users cannot enter {private}:"
            " install with a system Python, such as /usr/bin/python3"
        )
