"""Control groups of a machine in namespaces, in every hierarchy of this host that it uses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_INHERITED = ("cpuset.cpus", "cpuset.mems")
"""Files of version 1 that are empty in a new group, which then takes no process."""


def controllers() -> list[str]:
    """Return the names of this host's hierarchies of version 1."""
    return sorted(folder.name for folder in _ROOT.iterdir() if (folder / "tasks").exists() and not folder.is_symlink())


class ControlGroups:
    """A group ``name`` in the unified hierarchy and in those of version 1 that ``used`` names."""

    def __init__(self, name: str, used: Sequence[str]) -> None:
        self._name = name
        self._used = used

    def __iter__(self) -> Iterator[Path]:
        unified = next(folder for folder in (_ROOT, _ROOT / "unified") if (folder / "cgroup.controllers").exists())
        yield unified / self._name
        for name in self._used:
            if (_ROOT / name / "tasks").exists():
                yield _ROOT / name / self._name

    def make(self) -> None:
        """Make the groups."""
        for group in self:
            group.mkdir(exist_ok=True)
            for file in _INHERITED:
                if (group / file).exists():
                    (group / file).write_text((group.parent / file).read_text())

    def joining(self) -> str:
        """Return the beginning of a shell line, which moves the shell into the groups."""
        return "".join(f"echo $$ >{group}/cgroup.procs; " for group in self)

    def remove(self, seconds: float = 10.0) -> None:
        """Remove the groups and all below them, whose processes are dying or dead."""
        for top in self:
            _remove(top, time.monotonic() + seconds)


def remove_groups(prefix: str, seconds: float = 10.0) -> None:
    """Remove the groups of every name that begins with ``prefix``, in all hierarchies."""
    for top in [*_ROOT.glob(f"{prefix}*"), *_ROOT.glob(f"*/{prefix}*")]:
        _remove(top, time.monotonic() + seconds)


def _remove(top: Path, deadline: float) -> None:
    while top.exists():
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()
        assert time.monotonic() < deadline, f"the control group {top} stays in use"
