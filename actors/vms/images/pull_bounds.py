"""Bounds of a pull: the image's bytes and files, the time, and the space left on the host's disk."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.vms.images.tree import Tree
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from actors.vms.host.ids import IdMap

GB = 2**30
_MB = 10**6
_MAX_FILES = 2_000_000
_MAX_SECONDS = 3600.0
_MEASURE_SECONDS = 1.0


class ImageTooLarge(VmError):
    """An image has more bytes, or files, than the configuration allows."""


class InsufficientDisk(VmError):
    """The host's disk lacks ``lacking`` bytes for an image."""

    def __init__(self, message: str, lacking: int) -> None:
        super().__init__(message)
        self.lacking = lacking


@immutable
class PullOptions:
    """Limits and callbacks of a pull.

    ``max_bytes`` is the most that an image may have, packed or unpacked. ``timeout`` is the most seconds in which a
    registry sends nothing. ``keep_free`` bytes of the host's disk stay free. ``progress`` gets lines about the pull;
    ``check`` is called several times a second, and aborts the pull by raising. A registry may send the pull to public
    addresses and to ``networks``.
    """

    max_bytes: int
    timeout: float
    keep_free: int = 0
    progress: Callable[[str], None] = lambda _: None
    check: Callable[[], None] = lambda: None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(slots=True)
class PullBounds:
    """The bounds of one pull, which writes only in ``folder``.

    Measuring a tree is slow, reading the free space is not. So the tree is measured only when the disk has lost more
    than the image may have.
    """

    folder: Path
    idmap: IdMap
    options: PullOptions
    _began: float = field(default_factory=time.monotonic)
    _measured_at: float = float("-inf")
    _bytes: int = 0
    _files: int = 0
    _free: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._free = _free(self.folder)

    def expect(self, packed: int) -> None:
        """Raise ImageTooLarge or InsufficientDisk for an image of ``packed`` bytes, unpacked thrice that."""
        if packed > self.options.max_bytes:
            raise self._too_large(f"{packed / GB:.2f} GB packed")
        lacking = self.options.keep_free + 4 * packed - _free(self.folder)[0]
        if lacking > 0:
            message = f"the host's disk has {lacking / GB:.1f} GB too little space for it"
            raise InsufficientDisk(message, lacking)

    def check(self) -> None:
        """Raise ImageTooLarge, InsufficientDisk, VmError if it takes too long, and as the caller's check."""
        self.options.check()
        now = time.monotonic()
        if now - self._began > _MAX_SECONDS:
            message = f"it took longer than {_MAX_SECONDS:g} s"
            raise VmError(message)
        free_bytes, free_files = _free(self.folder)
        if free_bytes < self.options.keep_free:
            message = f"the host's disk has only {free_bytes / GB:.1f} GB left"
            raise InsufficientDisk(message, self.options.keep_free - free_bytes)
        bytes_, files = self._bytes + self._free[0] - free_bytes, self._files + self._free[1] - free_files
        if bytes_ <= self.options.max_bytes and files <= _MAX_FILES:
            return
        if now - self._measured_at >= _MEASURE_SECONDS:
            self.measure()
            self._measured_at = now

    def measure(self) -> None:
        """Measure the tree. Raises ImageTooLarge if it has more than the image may have."""
        self._free = _free(self.folder)
        self._bytes, self._files = Tree(self.folder, self.idmap.with_caller()).size_and_files()
        if self._bytes > self.options.max_bytes:
            raise self._too_large(f"more than {self.options.max_bytes / GB:g} GB unpacked")
        if self._files > _MAX_FILES:
            message = f"it has more than {_MAX_FILES} files"
            raise ImageTooLarge(message)

    def _too_large(self, size: str) -> ImageTooLarge:
        return ImageTooLarge(f"it has {size}, and images.max_gb allows {self.options.max_bytes / GB:g} GB")


def megabytes(size: int) -> str:
    """Format a size in MB for a progress line."""
    return f"{size / _MB:.1f}" if size < 10 * _MB else f"{size / _MB:.0f}"


def _free(folder: Path) -> tuple[int, int]:
    """Return the free bytes and inodes on the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail
