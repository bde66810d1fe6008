"""The coverage of builds, for the API and for pages: what was read last is kept."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from actors.coverage import BuildCoverage, Compared, compared, read_build, reports_of, target_build

if TYPE_CHECKING:
    from storage import Build, Storage

_KEPT_FILES = 20_000
_KEPT_BUILDS = 200
_KEPT_CHANGES = 50

_Key = tuple[str, ...]
"""The UUIDs of the artifacts that a coverage was read from: files do not change."""


@dataclass(slots=True)
class KeptCoverage:
    """The coverage that was read last. Safe in any thread."""

    storage: Storage
    _read: OrderedDict[_Key, BuildCoverage] = field(default_factory=OrderedDict)
    _compared: OrderedDict[tuple[_Key, _Key], Compared] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of_build(self, build: Build) -> BuildCoverage:
        """Return what the reports of a build say together."""
        return self._keyed(build)[1]

    def compared(self, build: Build) -> Compared:
        """Return a build's coverage beside that of its target branch: the latest build that passed before."""
        key, own = self._keyed(build)
        base = target_build(self.storage, build) if own.files else None
        if base is None:
            return Compared(own)
        base_key, before = self._keyed(base)
        if not before.files:
            return Compared(own)
        both = (key, base_key)
        with self._lock:
            kept = self._compared.get(both)
        if kept is None:
            kept = compared(self.storage, build, own, base, before)
            with self._lock:
                self._compared[both] = kept
                while len(self._compared) > _KEPT_CHANGES:
                    self._compared.popitem(last=False)
        return kept

    def _keyed(self, build: Build) -> tuple[_Key, BuildCoverage]:
        reports = reports_of(self.storage, build)
        key = tuple(each.uuid for each in reports)
        if not key:
            return key, BuildCoverage()
        with self._lock:
            kept = self._read.get(key)
            if kept is not None:
                self._read.move_to_end(key)
                return key, kept
        found = read_build(self.storage, build, reports)
        with self._lock:
            self._read[key] = found
            count = sum(len(each.files) for each in self._read.values())
            while len(self._read) > _KEPT_BUILDS or (count > _KEPT_FILES and len(self._read) > 1):
                count -= len(self._read.popitem(last=False)[1].files)
        return key, found
