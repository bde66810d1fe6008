"""The images of outer layers on the engine, each published once for each content.

The image of a container is the base image's tree as a tar stream, with the launcher in it as its init.
"""

from __future__ import annotations

import hashlib
import io
import platform
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from importlib import resources
from typing import IO, TYPE_CHECKING, Protocol, cast

from actors.vms import launcher
from actors.vms.host.vms import stamp_of
from actors.vms.incus.engine import part
from actors.vms.incus.refusals import EngineError, NotFound
from actors.vms.provider import ImageNotFound, VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.host.vms import ImageRoots
    from actors.vms.images.staging import StoreLocks
    from actors.vms.incus.engine import Engine
    from actors.vms.incus.volumes import Names


_UPLOAD_SECONDS = 1800.0
_KEY_CHARS = 20


class OuterContent(Protocol):
    """The content of one kind of outer layers' image."""

    @property
    def kind(self) -> str:
        """The word in the image's alias, of letters."""

    def digest(self) -> str:
        """Return a digest of all that is added to the tree. Raises VmError if a part is missing here."""

    def blocks(self, tree: Path) -> Iterator[bytes]:
        """Yield the image as the engine takes it. Raises VmError."""


class OuterImages:
    """The image of one kind of outer layers. Safe in any thread, and in processes that share the locks."""

    def __init__(
        self,
        engine: Engine,
        names: Names,
        store: ImageRoots,
        base: Callable[[], str],
        locks: StoreLocks,
        content: OuterContent,
    ) -> None:
        """``base`` names the image whose sshd serves the VMs."""
        self._engine = engine
        self._names = names
        self._store = store
        self._base = base
        self._locks = locks
        self._content = content

    def alias(self) -> str:
        """Return the alias of the image, which is published if it is missing. Raises VmError."""
        try:
            tree = self._store.path(self._base())
        except ImageNotFound as error:
            message = f"VMs need an image with sshd, run `ci-daemon image build`: {error}"
            raise VmError(message) from error
        key = hashlib.sha256(f"{stamp_of(tree)}\n{self._content.digest()}".encode()).hexdigest()[:_KEY_CHARS]
        alias = self._names.outer(self._content.kind, key)
        path = f"/1.0/images/aliases/{part(alias)}"
        if not self._engine.exists(path):
            with self._locks.image(f".{self._content.kind}"):  # no image's lock has this name
                if not self._engine.exists(path):
                    self._publish(alias, tree)
        return alias

    def _publish(self, alias: str, tree: Path) -> None:
        """Send the image, and remove those that it replaces; instances live on without theirs."""
        engine = self._engine
        content = _Hashed(self._content.blocks(tree))
        try:
            engine.upload("/1.0/images", content, _UPLOAD_SECONDS)
        except EngineError:
            if not content.ended or not engine.exists(f"/1.0/images/{content.fingerprint}"):
                raise
        engine.do("POST", "/1.0/images/aliases", {"name": alias, "target": content.fingerprint})
        for found in engine.get("/1.0/images/aliases", {"recursion": 1}):
            if found["name"] != alias and any(self._names.of_kind(self._content.kind, [found["name"]])):
                with suppress(NotFound):
                    engine.do("DELETE", f"/1.0/images/aliases/{part(found['name'])}")
                    image = f"/1.0/images/{found['target']}"
                    if not engine.get(image)["aliases"]:  # another service may have the same one
                        engine.do("DELETE", image)


class _Hashed:
    """A stream with its digest, by which the engine names what it has taken in."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._digest = hashlib.sha256()
        self.ended = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the blocks."""
        for block in self._blocks:
            self._digest.update(block)
            yield block
        self.ended = True

    @property
    def fingerprint(self) -> str:
        """The digest of what has been read."""
        return self._digest.hexdigest()


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
