"""What a release is made from: a checkout, or whatever else pip takes."""

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

__all__ = ["ORIGIN", "for_pip", "of_this_program", "requirement", "resolved"]

ORIGIN = "origin"
"""The file of a release that names what it was made from."""

_NOT_SOURCE = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "node_modules")


def of_this_program() -> str:
    """Return what the running `ci-daemon` was installed from: its release's note of it, else pip's (PEP 610)."""
    note = Path(sys.prefix, ORIGIN)
    if note.exists():
        return note.read_text(encoding="utf-8").strip()
    installed = distribution("ci-daemon")
    return requirement(installed.read_text("direct_url.json"), installed.version)


def requirement(direct_url: str | None, version: str) -> str:
    """Return what to give to pip, so that it installs the same again."""
    if direct_url is None:
        return f"ci-daemon=={version}"
    origin = json.loads(direct_url)
    url = str(origin["url"])
    if "vcs_info" in origin:
        return f"ci-daemon @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return unquote(urlsplit(url).path) if url.startswith("file:") else f"ci-daemon @ {url}"


def resolved(given: str) -> str:
    """Return a source as it holds in every folder: paths absolute, all else as it is. Raises InstallError."""
    path = Path(given).expanduser()
    if path.is_dir() and not ((path / "setup.cfg").exists() and (path / "ci_daemon").is_dir()):
        raise InstallError(f"{path} is no checkout of ci-daemon: give --from the folder that holds its setup.cfg")
    if path.exists():
        return str(path.resolve())
    if "/" in given and "://" not in given:
        raise InstallError(f"{given} is not there any more: say with --from where ci-daemon is to be taken from")
    return given


@contextmanager
def for_pip(source: str) -> Iterator[str]:
    """Yield what to give to pip: of a checkout a copy of its sources alone.

    What earlier builds left in the checkout would go into the release, and what this one leaves would be root's.
    """
    if not Path(source).is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="ci-daemon-") as folder:
        copy = Path(folder, "source")
        shutil.copytree(source, copy, ignore=_NOT_SOURCE, symlinks=True)
        yield str(copy)
