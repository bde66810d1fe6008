"""Names of images: which are names at all, and how they are called on disk."""

from __future__ import annotations

import re

from actors.vms.provider import VmError

__all__ = ["check_name", "folder_of", "is_name", "name_of"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(:[a-zA-Z0-9][a-zA-Z0-9._-]*)?")
_MAX_NAME = 200
_TO_FOLDER = str.maketrans({"/": "+", ":": "@"})
_TO_NAME = str.maketrans({"+": "/", "@": ":"})


def is_name(name: str) -> bool:
    """Tell whether an image may have this name, like ``debian:12`` or ``team/base``."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise VmError where ``name`` is no name for an image."""
    if not is_name(name):
        message = (
            f'"{name[:_MAX_NAME]}" is no name for an image: use lower-case letters, digits, ".", "_" and "-", parts '
            'joined by "/", and a tag after ":"'
        )
        raise VmError(message)


def folder_of(name: str) -> str:
    """Return what an image's folder is called: mount options know ``:``, and paths know ``/``."""
    return name.translate(_TO_FOLDER)


def name_of(folder: str) -> str:
    """Return the name of the image in a folder."""
    return folder.translate(_TO_NAME)
