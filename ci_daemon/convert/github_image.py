"""Images of GitHub's jobs: the container, the language that is set up, or a bare system. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import UnknownExpression, filled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

__all__ = ["SETUPS", "image_of", "set_up"]

SETUPS = MappingProxyType({"actions/setup-python": "python", "actions/setup-node": "node", "actions/setup-go": "go"})
"""Actions that bring a language."""

_IMAGES = MappingProxyType({"python": "python", "node": "node", "go": "golang"})
_VERSION = re.compile(r"(\d+(?:\.\d+){0,2})(?:\.x)?")
_IMAGE = re.compile(r"[\w./:@+-]+")
_BARE = "ubuntu:24.04"


def image_of(key: str, job: Located, cell: Mapping[str, str], omissions: Omissions) -> str:
    """Return the image of a job: its container, the language that it sets up, or a bare Ubuntu."""
    container = job.get("container")
    given = container.get("image") if container.mapping() else container
    if given.value is not None:
        if container.mapping():
            omissions.unknown(container, frozenset({"image"}), f"{key}.container.")
        try:
            image = filled(given.text, cell)
        except UnknownExpression as error:
            omissions.add(given, f"{key}.container", str(error))
            return _BARE
        if _IMAGE.fullmatch(image):
            return image
        omissions.add(given, f"{key}.container", "it is not a plain name of an image")
        return _BARE
    images = [each for step in job.get("steps").items() if (each := set_up(step, cell)) is not None]
    if len(images) == 1:
        return images[0]
    why = f"the job runs in the bare image {_BARE}, without the tools of GitHub's runner: install them in a step"
    omissions.add(job.get("runs-on"), f"{key}.runs-on", why)
    return _BARE


def set_up(step: Located, cell: Mapping[str, str]) -> str | None:
    """Return the image of the language that a step sets up; None if it sets up no one version."""
    language = SETUPS.get((step.get("uses").text or "").partition("@")[0])
    if language is None or step.get("if").value is not None:
        return None
    try:
        version = _VERSION.fullmatch(filled(step.get("with", f"{language}-version").scalar, cell))
    except UnknownExpression:
        return None
    return None if version is None else f"{_IMAGES[language]}:{version[1]}"
