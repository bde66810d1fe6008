"""Trees of the image store as tar streams: as they are, and as the engine's image for the outer layer."""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from importlib import resources
from typing import IO, TYPE_CHECKING, cast

from actors.vms import launcher
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap

PROGRAMS = "/usr/lib/ci-daemon"
"""The folder of the launcher in the outer layer."""

_BLOCK_BYTES = 1 << 18
_INIT = f"""\
#!/bin/sh
exec /usr/bin/python3 -I -S -B -c \\
    'import sys; sys.path[:0] = ["{PROGRAMS}"]; from launcher.container_guest import main; main()'
"""
METADATA = """\
architecture: {machine}
creation_date: 1
properties:
  description: The outer layer of VMs of ci-daemon
"""


def base_image(tree: Path, idmap: IdMap) -> Iterator[bytes]:
    """Yield a unified image of the engine: the tree, with the launcher in it as its init. Raises VmError."""
    init = "sbin/init" if not (tree / "sbin").is_symlink() else "usr/sbin/init"
    files = {"metadata.yaml": METADATA.format(machine=platform.machine()), f"rootfs/{init}": _INIT}
    files |= {f"rootfs{PROGRAMS}/{name}": text for name, text in launcher_files().items()}
    yield unended_tar(files)
    with tree_tar(tree, idmap, "rootfs/", without=f"./{init}") as stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block


def launcher_digest() -> str:
    """Return a digest of the launcher."""
    return hashlib.sha256(repr((_INIT, sorted(launcher_files().items()))).encode()).hexdigest()


@immutable
class ContainerImage:
    """The image of outer layers that are containers: the base image's tree with the launcher in it."""

    idmap: IdMap
    kind: str = "base"

    def digest(self) -> str:
        """Return a digest of all that is added to the tree."""
        return launcher_digest()

    def blocks(self, tree: Path) -> Iterator[bytes]:
        """Yield the image as the engine takes it. Raises VmError."""
        return base_image(tree, self.idmap)


@contextmanager
def tree_tar(tree: Path, idmap: IdMap, below: str = "", without: str = "") -> Iterator[IO[bytes]]:
    """Give the tar of a tree whose files belong to the mapped ids. Raises VmError.

    Each name is ``below`` a folder; ``without`` is left out.
    """
    rename = ["--transform", f"s,^\\./,{below},S"] if below else []
    leave_out = ["--exclude", without] if without else []
    argv = ["tar", "--create", "--numeric-owner", "--xattrs", *rename, *leave_out, "./"]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            idmap.command(argv), cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        try:
            yield cast("IO[bytes]", process.stdout)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            errors.seek(0)
            reason = errors.read().decode(errors="replace").strip()[-1000:]
            message = f"the image at {tree} cannot be read: {reason}"
            raise VmError(message)


def launcher_files() -> dict[str, str]:
    """Return the launcher's files, by their names below `PROGRAMS`."""
    root = resources.files(launcher)
    found: dict[str, str] = {}
    folders = [("launcher", root)]
    while folders:
        name, folder = folders.pop()
        for each in folder.iterdir():
            if each.is_dir() and each.name != "__pycache__":
                folders.append((f"{name}/{each.name}", each))
            elif each.name.endswith((".py", ".txt")):
                found[f"{name}/{each.name}"] = each.read_text(encoding="utf-8")
    return found


def unended_tar(files: dict[str, str]) -> bytes:
    """Return a tar without the blocks that mark its end, so that another one may follow."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name.endswith("/init") else 0o644
            tar.addfile(entry, io.BytesIO(content))
        end = tar.offset
    return whole.getvalue()[:end]
