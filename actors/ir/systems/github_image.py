"""Images of GitHub's jobs: the container, the language that is set up, or a bare system. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.github_expressions import filled
from actors.ir.systems.jobs import NAME_IN_TEXT
from actors.ir.systems.omissions import LeftOut, UnknownExpression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

SETUPS = MappingProxyType({"actions/setup-python": "python", "actions/setup-node": "node", "actions/setup-go": "go"})
"""Actions that bring a language."""

IMAGE = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}")
"""The names of images that a step may have."""

_IMAGES = MappingProxyType({"python": "python", "node": "node", "go": "golang"})
_NEWEST = MappingProxyType(
    {
        ("go", "stable"): "golang",
        ("node", "latest"): "node",
        ("node", "node"): "node",
        ("node", "current"): "node",
        ("node", "lts/*"): "node:lts",
    }
)
"""Images of versions that have names."""

_VERSION = re.compile(r"(\d+(?:\.\d+){0,2}|\$\{\{ matrix\.[\w-]+ \}\})(?:\.x)?")
_MIRRORS = re.compile(r"https?://(?:code\.forgejo\.org|data\.forgejo\.org|gitea\.com|github\.com)/")
"""Hosts that have the actions of GitHub under the same names, as Forgejo and Gitea write them."""

_BARE = "ubuntu:24.04"
"""The name that stands for the service's default image."""

_OLDER = re.compile(r"ubuntu-(?!24\.04)(\d\d\.\d\d)")
_AS_ROOT = re.compile(r"\s*(--user[ =](root|0)(:(root|0))?\s*)*")


def action_of(step: Located) -> str:
    """Return the name of the action of a step, without its version and the host of a mirror."""
    return _MIRRORS.sub("", step.get("uses").text or "").partition("@")[0]


def image_of(key: str, job: Located, cell: Mapping[str, str], omissions: Omissions) -> str:
    """Return the image of a job: its container, the language that it sets up, or a bare Ubuntu.

    Raises LeftOut.
    """
    container = job.get("container")
    if container.value is not None:
        return _container(key, container, cell)
    setups = [step for step in job.get("steps").items() if action_of(step) in SETUPS]
    images = dict.fromkeys(filter(None, (set_up(step, cell) for step in setups)))
    if len(images) > 1:
        raise LeftOut(setups[1], f"{key}.steps", f"it sets up {' and '.join(images)}, and a job here has one image")
    older = _OLDER.fullmatch(filled((job.get("runs-on").texts() or ("",))[0], cell))
    image = next(iter(images), _BARE if older is None else f"ubuntu:{older[1]}")
    which = f"the service's default image, for which {image} stands" if image == _BARE else f"the image {image}"
    why = f"the job runs as root in {which}, without the tools of the other system's runner: install them in a step"
    omissions.add(job.get("runs-on"), f"{key}.runs-on", why)
    return image


def _container(key: str, container: Located, cell: Mapping[str, str]) -> str:
    for name, member in container.mapping().items():
        harmless = name == "env" or (name == "options" and _AS_ROOT.fullmatch(member.text or "?"))
        if name != "image" and not harmless:
            raise LeftOut(member, f"{key}.container.{name}", f"{name} of a container has no counterpart here")
    given = container.get("image") if container.mapping() else container
    try:
        image = filled(given.text, cell)
    except UnknownExpression as error:
        raise LeftOut(given, f"{key}.container", str(error)) from error
    image = image.removeprefix("docker://")
    if not IMAGE.fullmatch(NAME_IN_TEXT.sub("x", image)):
        raise LeftOut(given, f"{key}.container", "it is not a plain name of an image")
    return image


def set_up(step: Located, cell: Mapping[str, str]) -> str | None:
    """Return the image of the language that a step sets up; None if it sets up no one version."""
    language = SETUPS.get(action_of(step))
    if language is None or step.get("if").value is not None:
        return None
    try:
        asked = filled(step.get("with", f"{language}-version").number_or_text, cell)
    except UnknownExpression:
        return None
    if (language, asked) in _NEWEST:
        return _NEWEST[language, asked]
    version = _VERSION.fullmatch(asked)
    return None if version is None else f"{_IMAGES[language]}:{version[1]}"
