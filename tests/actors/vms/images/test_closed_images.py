"""Images and disks are closed to other users of the host.

Otherwise those users could run setuid programs in them as the VMs' root.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageStore, SandboxProvider
from actors.vms.host import IdMap, run_mapped
from actors.vms.images.tree import scratch
from storage import SystemClock

PROGRAMS = ("bin/sh", "bin/env")


@pytest.fixture
def folder(idmap: IdMap) -> Iterator[Path]:
    """A folder that every user of the host can enter."""
    made = Path(tempfile.mkdtemp(dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    run_mapped(["rm", "-rf", "--", made.name], idmap=idmap.with_caller(), cwd=made.parent)


def image_tar() -> io.BytesIO:
    """Return a root file system whose ``env`` is a setuid program of root."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in PROGRAMS:
            entry = tarfile.TarInfo(name)
            program = Path(shutil.which("id") or "").read_bytes()
            entry.size, entry.mode = len(program), 0o4755 if name == "bin/env" else 0o755
            tar.addfile(entry, io.BytesIO(program))
    packed.seek(0)
    return packed


def as_another_user(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program as another user, by way of a shell: `setpriv` itself still has root's capabilities."""
    shell = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", 'exec "$@"', "sh"]
    return subprocess.run([*shell, *argv], capture_output=True, text=True, check=False)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_another_user_can_neither_read_nor_run_an_images_files(folder: Path, idmap: IdMap) -> None:
    store = ImageStore(folder / "images", idmap)
    store.import_("programs", image_tar())
    program = store.path("programs") / "bin" / "env"
    assert program.stat().st_mode & 0o4000
    assert "Permission denied" in as_another_user(program).stderr
    assert "Permission denied" in as_another_user("ls", program.parent).stderr


@needs_root
def test_a_store_that_an_older_release_left_open_is_closed(folder: Path, idmap: IdMap) -> None:
    ImageStore(folder / "images", idmap).import_("programs", image_tar())
    (folder / "images").chmod(0o755)
    store = ImageStore(folder / "images", idmap)
    assert "Permission denied" in as_another_user(store.path("programs") / "bin" / "env").stderr


@needs_root
def test_disks_that_an_older_release_left_open_are_closed(folder: Path, idmap: IdMap) -> None:
    (folder / "sandbox").mkdir(mode=0o755)
    images = ImageStore(folder / "images", idmap)
    SandboxProvider(folder / "sandbox", images, idmap, SystemClock()).close()
    assert "Permission denied" in as_another_user("ls", folder / "sandbox").stderr


@needs_root
def test_a_tree_in_the_making_is_open_to_the_vms_root_alone(folder: Path, idmap: IdMap) -> None:
    with scratch(folder, idmap) as place:
        run_mapped(["sh", "-c", f"cd {shlex.quote(str(place))}"], idmap=idmap, cwd=Path("/"))
        (place / "program").write_text("#!/bin/sh\n")
        (place / "program").chmod(0o755)
        assert "Permission denied" in as_another_user(place / "program").stderr
