"""An image of the store, its name, and references to images in registries.

An image's folder holds the tree, its facts, and the time of its last use. Names are translated to names of folders.
References are read as docker reads them: short names are in docker.io.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.vms.provider import VmError
from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


TREE = "tree"
"""The name of the tree in an image's folder."""

_FACTS = "image.json"
_USED = "used"


class ImageError(VmError):
    """An image cannot be made or removed; the message says what to do."""


class ImageTooLarge(VmError):
    """An image has more bytes, or files, than the configuration allows."""


class InsufficientDisk(VmError):
    """The host's disk lacks ``lacking`` bytes for an image."""

    def __init__(self, message: str, lacking: int) -> None:
        super().__init__(message)
        self.lacking = lacking


@immutable
class ImageProgram:
    """The program that an image starts as a service: ``entry_point``, then ``command``; both may be empty.

    ``user`` is ``NAME:GROUP`` or numbers, as the image's own files know them; empty for root. ``stop_signal`` asks it
    to end. ``port`` is the TCP port that it listens at, None if the image names none or several.
    """

    entry_point: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    folder: str = "/"
    stop_signal: int = 15
    port: int | None = None


@immutable
class Image:
    """An image of the store: ``size`` in bytes on disk, ``source`` where it came from.

    ``environment`` has the variables that the image sets for its programs, of which ``program`` is a service's. An
    ``on_demand`` image was pulled for a job and is removed when unused; ``used`` is when a job last started from it, if
    that was recorded. ``digest`` is the repository and the digest of what was pulled, such as
    ``docker.io/library/debian@sha256:…``, or that of the tar that was imported, ``sha256:…``; None for other images,
    and for those of earlier releases.
    """

    name: str
    size: int
    source: str
    created: datetime
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    on_demand: bool = False
    used: datetime | None = None
    program: ImageProgram = field(default_factory=ImageProgram)
    digest: str | None = None

    @property
    def identity(self) -> str:
        """A text that no other image has, not even a later one of the same name."""
        facts = (self.name, self.source, self.size, self.created.isoformat(), sorted(self.environment.items()))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @classmethod
    def read(cls, folder: Path) -> Image:
        """Read the facts in an image's folder. Raises FileNotFoundError."""
        found = (folder / _FACTS).stat()
        image = _read_facts(folder / _FACTS, found.st_ino, found.st_mtime_ns)
        with suppress(FileNotFoundError):
            return replace(image, used=datetime.fromtimestamp((folder / _USED).stat().st_mtime, UTC))
        return image

    def write(self, folder: Path) -> None:
        """Write the facts to an image's folder."""
        facts = {**asdict(self), "created": self.created.isoformat()}
        del facts["used"]
        (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


@lru_cache(maxsize=64)
def _read_facts(file: Path, _inode: int, _written: int) -> Image:
    """Parse a file of facts once; a later one has another inode or time."""
    facts = json.loads(file.read_text(encoding="utf-8"))
    program = facts.get("program", {})
    words = {name: tuple(program[name]) for name in ("entry_point", "command") if name in program}
    created = datetime.fromisoformat(facts["created"])
    return Image(**{**facts, "created": created, "program": ImageProgram(**{**program, **words})})


def is_complete(folder: Path) -> bool:
    """Tell whether a folder holds a whole image."""
    return (folder / _FACTS).exists()


def record_use(folder: Path) -> None:
    """Record that a job starts from the image in a folder now. Raises OSError."""
    (folder / _USED).touch()


_PART = r"[a-z0-9][a-z0-9._-]*"
_NAME = pattern(
    rf"(~[0-9a-f-]{{36}}/)?({_PART}:[0-9]+/)?{_PART}(/{_PART})*(:[a-zA-Z0-9_][a-zA-Z0-9._-]*)?(@sha256:[0-9a-f]{{64}})?",
)
_PRIVATE = pattern(r"~([0-9a-f-]{36})/(.+)")
_MAX_NAME = 200
_TO_FOLDER = str.maketrans({"/": "+", ":": "@", "@": "="})
_TO_NAME = str.maketrans({"+": "/", "@": ":", "=": "@"})


def is_name(name: str) -> bool:
    """Tell whether an image may have this name.

    For example ``debian:12``, ``host:5000/team/base:1`` or ``alpine@sha256:…``.
    """
    return len(public_name(name)) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def private_name(login: str, name: str) -> str:
    """Return the name of an image in the store that was pulled with a login, by the login's UUID.

    Nobody has it by the name that jobs give: `public_name` returns that.
    """
    return f"~{login}/{name}"


def login_of(name: str) -> str | None:
    """Return the UUID of the login with which an image was pulled; None if it is for everybody."""
    found = _PRIVATE.fullmatch(name)
    return None if found is None else found[1]


def public_name(name: str) -> str:
    """Return the name that jobs give an image of the store."""
    found = _PRIVATE.fullmatch(name)
    return name if found is None else found[2]


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


# docker-image-py reads the same references, but needs the extension module `regex` and takes three times as long to
# import as `re`, for this one pattern.
_PATTERN = pattern(
    r"((?P<host>(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9.-]+(?=:\d+/)|\[[0-9a-f:]+\])(:\d{1,5})?)/)?"
    r"(?P<path>[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_MAX_LENGTH = 500
_HUB = "docker.io"
_HUB_NAMES = {_HUB, "index.docker.io", "registry-1.docker.io"}
_OFFICIAL = "library/"


@immutable
class Reference:
    """An image in a registry.

    ``registry`` is a host with its port, if any; ``version`` is ``:TAG``, or ``@sha256:DIGEST``, which overrides a tag.
    """

    registry: str
    path: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference, with or without ``docker://``. Raises VmError if it is invalid."""
        found = _PATTERN.fullmatch(text.removeprefix("docker://")) if len(text) <= _MAX_LENGTH else None
        if found is None:
            message = f'"{text[:_MAX_LENGTH]}" is not a valid image reference: use one like debian:12-slim'
            raise VmError(message)
        registry, path = found["host"] or _HUB, found["path"]
        if registry in _HUB_NAMES:
            registry, path = _HUB, path if "/" in path else f"{_OFFICIAL}{path}"
        return cls(registry, path, found["digest"] or f":{found['tag'] or 'latest'}")

    @property
    def text(self) -> str:
        """The full reference, with every default written out."""
        return f"{self.registry}/{self.path}{self.version}"

    @property
    def short(self) -> str:
        """The reference without docker's defaults: the registry ``docker.io`` and the folder ``library``."""
        path = f"{self.registry}/{self.path}".removeprefix(f"{_HUB}/").removeprefix(_OFFICIAL)
        return f"{path}{self.version}"

    def at(self, digest: str) -> Reference:
        """Return the image of this repository with a digest, ``sha256:…``."""
        return Reference(self.registry, self.path, f"@{digest}")

    @property
    def on_loopback(self) -> bool:
        """True if the registry is on this host's loopback; it may speak plain HTTP, as for docker."""
        host = self.registry.rpartition(":")[0] if self.registry.rpartition(":")[2].isdigit() else self.registry
        try:
            return ip_address(host.strip("[]")).is_loopback
        except ValueError:
            return host == "localhost"


def registry_of(name: str) -> str | None:
    """Return the registry of an image by its host and port, if any; None if it is in none."""
    try:
        return Reference.parse(public_name(name)).registry
    except VmError:
        return None
