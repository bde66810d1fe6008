"""Trees of images, as tars."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

PROGRAMS = ["sh", "cat", "tar", "flock", "perl", "unshare", "sshd"]


def root_tar(*extra: tarfile.TarInfo, without: str = "") -> bytes:
    """Return the smallest root file system that may serve all VMs with its sshd, laid out as in Debian."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("usr", "usr/bin", "usr/sbin", "etc", "dev"):
            tar.addfile(info(f"./{folder}", tarfile.DIRTYPE))
        tar.addfile(info("./bin", tarfile.SYMTYPE, target="usr/bin"))
        for name in [f"usr/{'s' * (program == 'sshd')}bin/{program}" for program in PROGRAMS]:
            if not name.endswith(f"/{without}"):
                tar.addfile(info(f"./{name}"))
        for each in extra:
            tar.addfile(each)
    return buffer.getvalue()


def info(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", uid: int = 0, mode: int = 0o755
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.uid, made.gid, made.mode = kind, target, uid, uid, mode
    return made


def hidden(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir() if place.name.startswith(".making"))
