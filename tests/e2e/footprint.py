"""A daemon's footprint: what it, its zygote and its VMs hold of the host, as counts to compare."""

from __future__ import annotations

import re
import socket
import struct
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.traces import control_groups, processes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.e2e.daemon import Daemon

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_UDIAG_SHOW_PEER = 4
_UNIX_DIAG_PEER = 2
_ANY = 0xFFFFFFFF


def footprint(daemon: Daemon, temporary: Path) -> dict[str, int]:
    """Count what a daemon holds; its temporary files are in ``temporary``.

    Its connections to its database are left out: threads open them as they need them, see `spare_connections`.
    """
    of_vms = processes(daemon.state).keys() - {daemon.pid}
    zygotes = _zygotes(daemon.pid)
    everybody = (*of_vms, daemon.pid, *zygotes)
    counts = {
        "processes of VMs": len(of_vms),
        "zygotes": len(zygotes),
        "children of the zygote": sum(len(_text(f"{pid}/task/{pid}/children").split()) for pid in zygotes),
        "namespaces": len({namespace for pid in everybody for namespace in _links(Path(f"/proc/{pid}/ns"))}),
        "mounts of VMs": sum(_mounts_by_namespace(of_vms).values()),
        "control groups": len(control_groups(daemon.state)),
        "files of sandboxes": len(list((daemon.state / "sandbox").rglob("*"))),
        "temporary files": len(list(temporary.rglob("*"))),
    }
    for name, pid in (("daemon", daemon.pid), *(("zygote", pid) for pid in zygotes)):
        counts[f"mounts of the {name}"] = _mounts(pid, str(daemon.state.parent))
        counts[f"threads of the {name}"] = len(list(Path(f"/proc/{pid}/task").iterdir()))
        others = [link for link in _links(Path(f"/proc/{pid}/fd")) if ".sqlite3" not in link]
        kinds = Counter(re.sub(r":?\[?\d*\]?$|^/.*", "", link) or "files" for link in others)
        counts |= {f"descriptors of the {name}, {kind}": count for kind, count in kinds.items()}
    return counts


def spare_connections(daemon: Daemon) -> int:
    """Count the daemon's connections to its database beyond one for each thread."""
    of_process = Path(f"/proc/{daemon.pid}")
    opened = sum(link.endswith(".sqlite3-wal") for link in _links(of_process / "fd"))
    return opened - len(list((of_process / "task").iterdir()))


def memory(daemon: Daemon) -> dict[str, int]:
    """Return the KiB of memory that the daemon, and its zygote, have to themselves."""
    return {
        name: sum(map(int, re.findall(r"^Private_\w+: +(\d+)", _text(f"{pid}/smaps_rollup"), re.MULTILINE)))
        for name, pid in (("daemon", daemon.pid), *(("zygote", pid) for pid in _zygotes(daemon.pid)))
    }


def _mounts(pid: int, below: str = "") -> int:
    """Count the mounts that a process sees, or those of them that name a path."""
    return sum(below in line for line in _text(f"{pid}/mountinfo").splitlines())


def _mounts_by_namespace(pids: Iterable[int]) -> dict[str, int]:
    """Count the mounts of each namespace of these processes; one of them that ends meanwhile sees none."""
    counts: dict[str, int] = {}
    for pid in pids:
        namespace = _link(Path(f"/proc/{pid}/ns/mnt"))
        counts[namespace] = max(counts.get(namespace, 0), _own_mounts(pid))
    return counts


def _own_mounts(pid: int) -> int:
    """Count the mounts that a process sees, without those that its namespace has from the host."""
    texts = _text("self/mountinfo"), _text(f"{pid}/mountinfo")
    host, seen = ({tuple(line.split()[2:5]) for line in text.splitlines()} for text in texts)
    return len(seen - host)


def _zygotes(daemon: int) -> list[int]:
    """Return the processes whose standard input is the other end of one of the daemon's sockets."""
    ours = [int(link[8:-1]) for link in _links(Path(f"/proc/{daemon}/fd")) if link.startswith("socket:[")]
    peers = {f"socket:[{peer}]" for inode in ours if (peer := _peer_of(inode))}
    running = [int(process.name) for process in Path("/proc").glob("[0-9]*")]
    return [pid for pid in running if pid != daemon and _link(Path(f"/proc/{pid}/fd/0")) in peers]


def _peer_of(inode: int) -> int | None:
    """Ask the kernel for the other end of a UNIX socket; None if it has none or is of another family."""
    asked = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, _ANY, inode, _UDIAG_SHOW_PEER, _ANY, _ANY)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as diagnostics:
        header = struct.pack("=IHHII", 16 + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
        diagnostics.send(header + asked)
        answer = diagnostics.recv(4096)
    size, kind = struct.unpack_from("=IH", answer)
    if kind != _SOCK_DIAG_BY_FAMILY or size < 40:
        return None
    attribute, peer = struct.unpack_from("=2xHI", answer, 32)
    return int(peer) if attribute == _UNIX_DIAG_PEER else None


def _links(folder: Path) -> list[str]:
    """Return the targets of a folder's links; none if its process has ended."""
    try:
        return [target for path in folder.iterdir() if (target := _link(path))]
    except OSError:
        return []


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _text(name: str) -> str:
    try:
        return Path("/proc", name).read_text()
    except OSError:
        return ""
