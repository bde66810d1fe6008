"""The source of a release: a checkout, or any requirement that pip accepts."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ci_daemon.install.host import InstallError

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE_FILE = "origin"
"""The name of the file in a release that names its source."""

_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "node_modules")


def of_running_program() -> str:
    """Return the source of the running `ci-daemon`: from its release's file, else from pip (PEP 610)."""
    file = Path(sys.prefix, SOURCE_FILE)
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    installed = distribution("ci-daemon")
    return requirement(installed.read_text("direct_url.json"), installed.version)


def requirement(direct_url: str | None, version: str) -> str:
    """Return the requirement with which pip installs the same again."""
    if direct_url is None:
        return f"ci-daemon=={version}"
    origin = json.loads(direct_url)
    url = str(origin["url"])
    if "vcs_info" in origin:
        return f"ci-daemon @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return unquote(urlsplit(url).path) if url.startswith("file:") else f"ci-daemon @ {url}"


def resolve(given: str) -> str:
    """Return a source that is valid in every folder: paths become absolute. Raises InstallError."""
    path = Path(given).expanduser()
    if path.is_dir() and not ((path / "setup.cfg").exists() and (path / "ci_daemon").is_dir()):
        raise InstallError(f"{path} is not a checkout of ci-daemon: give --from the folder with its setup.cfg")
    if path.exists():
        return str(path.resolve())
    if "/" in given and "://" not in given:
        raise InstallError(f"{given} no longer exists: give --from the source of ci-daemon")
    return given


@contextmanager
def pip_argument(source: str) -> Iterator[str]:
    """Yield the argument for pip: for a checkout, a copy of its sources alone.

    In the checkout itself, pip would include the files of earlier builds and leave files that belong to root.
    """
    if not Path(source).is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="ci-daemon-") as folder:
        copy = Path(folder, "source")
        shutil.copytree(source, copy, ignore=_NOT_COPIED, symlinks=True)
        yield str(copy)
