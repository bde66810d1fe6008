"""All that the VMs of a state directory hold on the host, by the VM, whether it runs or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from actors.vms.host import VmLimits

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
UNKNOWN = "unknown"
"""Stands for the VM of a trace that tells only the state directory."""


def traces(state: Path) -> dict[str, set[str]]:
    """Return what each VM has left: processes, mounts of the host, control groups and folders."""
    found: dict[str, set[str]] = {}
    for vm, trace in (*_processes(state), *_mounts(state), *_groups(state), *_folders(state)):
        found.setdefault(vm, set()).add(trace)
    return found


def processes(state: Path) -> dict[int, str]:
    """Return the processes of a state directory's VMs, and of the launcher's programs, each with its VM."""
    marks = _marks(state)
    parents = dict(_parents())
    found = {pid: vm for pid in parents if pid != os.getpid() and (vm := _vm_of(pid, marks)) is not None}
    added = dict(found)
    while added:
        added = {pid: added[parent] for pid, parent in parents.items() if parent in added and pid not in found}
        found |= added
    return found


def control_groups(state: Path) -> list[Path]:
    """Return the control groups of a state directory's VMs."""
    hierarchies = VmLimits.of_host(1).hierarchies
    return [group for hierarchy in hierarchies for group in hierarchy.parent.glob(f"{_group_prefix(state)}*")]


def _processes(state: Path) -> Iterator[tuple[str, str]]:
    for pid, vm in processes(state).items():
        command = _text(f"{pid}/cmdline").replace("\0", " ")
        yield vm, f"process {pid} {command}"


def _mounts(state: Path) -> Iterator[tuple[str, str]]:
    marks = _marks(state)
    for line in _text("self/mountinfo").splitlines():
        if mark := marks.search(line):
            yield mark["vm"] or mark["group"] or UNKNOWN, f"mount {line}"


def _groups(state: Path) -> Iterator[tuple[str, str]]:
    prefix = _group_prefix(state)
    for group in control_groups(state):
        yield group.name.removeprefix(prefix).partition("@")[0], f"control group {group}"


def _folders(state: Path) -> Iterator[tuple[str, str]]:
    sandbox = state / "sandbox"
    for place in (sandbox / "vms", *(sandbox / "trees" / tree for tree in ("disks", "trash/disks"))):
        for path in place.iterdir():
            yield path.name, f"folder {path}"


def _marks(state: Path) -> re.Pattern[str]:
    """Return the pattern of a path or a control group of VMs, whose id is its group vm or group."""
    vm = f"(?:[a-z/]*/(?P<vm>{_UUID}))?"
    return re.compile(f"{re.escape(f'{state}/sandbox/')}{vm}|{re.escape(_group_prefix(state))}(?P<group>{_UUID})")


def _group_prefix(state: Path) -> str:
    """Return what `SandboxProvider.group_name` begins the names of groups with."""
    found = (state / "sandbox" / "vms").stat()
    return f"ci-daemon-{found.st_dev:x}-{found.st_ino:x}-"


def _vm_of(pid: int, marks: re.Pattern[str]) -> str | None:
    """Return the VM that a process shows by its control groups, mounts or descriptors, if any."""
    shown = [_text(f"{pid}/cgroup"), *_links(pid), _text(f"{pid}/mountinfo")]
    named = [mark["vm"] or mark["group"] or UNKNOWN for text in shown for mark in marks.finditer(text)]
    return min(named, key=UNKNOWN.__eq__, default=None)


def _links(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for link in (Path(f"/proc/{pid}/cwd"), Path(f"/proc/{pid}/root"), *Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(OSError):  # closed meanwhile
                yield str(link.readlink())


def _parents() -> Iterator[tuple[int, int]]:
    for process in Path("/proc").glob("[0-9]*"):
        if fields := _text(f"{process.name}/stat").rpartition(")")[2].split():
            yield int(process.name), int(fields[1])


def _text(name: str) -> str:
    try:
        return Path("/proc", name).read_text(errors="replace")
    except OSError:
        return ""
