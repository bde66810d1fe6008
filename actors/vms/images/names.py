"""Names of images: their syntax, and their translation to names of folders."""

from __future__ import annotations

import re

from actors.vms.provider import VmError

_PART = r"[a-z0-9][a-z0-9._-]*"
_NAME = re.compile(
    rf"({_PART}:[0-9]+/)?{_PART}(/{_PART})*(:[a-zA-Z0-9_][a-zA-Z0-9._-]*)?(@sha256:[0-9a-f]{{64}})?",
)
_MAX_NAME = 200
_TO_FOLDER = str.maketrans({"/": "+", ":": "@", "@": "="})
_TO_NAME = str.maketrans({"+": "/", "@": ":", "=": "@"})


def is_name(name: str) -> bool:
    """Tell whether an image may have this name.

    For example ``debian:12``, ``host:5000/team/base:1`` or ``alpine@sha256:…``.
    """
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise VmError if an image may not have this name."""
    if not is_name(name):
        message = (
            f'"{name[:_MAX_NAME]}" is not a valid image name: use lower-case letters, digits, ".", "_" and "-", parts '
            'joined by "/", a tag after ":" or a digest after "@sha256:"'
        )
        raise VmError(message)


def folder_of(name: str) -> str:
    """Return the name of an image's folder: without ``/``, and without the ``:`` of overlay's options."""
    return name.translate(_TO_FOLDER)


def name_of(folder: str) -> str:
    """Return the name of the image in a folder."""
    return folder.translate(_TO_NAME)
