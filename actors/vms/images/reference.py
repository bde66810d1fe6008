"""References to images in registries, as docker reads them: short names are in docker.io."""

from __future__ import annotations

import re
from ipaddress import ip_address

from actors.vms.provider import VmError
from storage import immutable

# docker-image-py reads the same references, but needs the extension module `regex` and takes three times as long to
# import as `re`, for this one pattern.
_PATTERN = re.compile(
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
