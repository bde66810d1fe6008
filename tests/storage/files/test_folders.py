"""Files that a state directory takes or not, on real file systems in mount namespaces of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storage.files.kinds import why_no_files

_MOUNTED = """
import pathlib, subprocess, sys
from storage.files.kinds import why_no_files
state, folder, options = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", state / folder], check=True)
print(why_no_files(state))
"""

_AS_NOBODY = """
import os, pathlib, sys
import storage.records.leases  # which it would import below, where it may not read what root has
from storage.files.kinds import why_no_files
folder = os.open(sys.argv[1], os.O_PATH)
if os.geteuid() == 0:
    os.setuid(65534)
os.fchdir(folder)
print(str(why_no_files(pathlib.Path("."))).replace("folder ", f"folder {sys.argv[1]}/"))
"""


def _why_with(state: Path, folder: str, options: str) -> str:
    """Return why nothing can be written if a folder of the state directory is such a file system."""
    (state / folder).mkdir(parents=True, exist_ok=True)
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount"]
    program = [*own_mounts, sys.executable, "-c", _MOUNTED, str(state), folder, options]
    return subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def _why_as_nobody(state: Path) -> str:
    """Return why another user than root can write nothing."""
    return subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(state)], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def test_a_folder_that_another_user_owns_is_told(tmp_path: Path):
    """In those of disks only the root of VMs writes, as whom the service starts what makes disks."""
    (tmp_path / "sandbox" / "trees" / "disks").mkdir(parents=True)
    vms = tmp_path / "sandbox" / "vms"
    vms.mkdir()
    tmp_path.chmod(0o777)
    for folder in tmp_path.rglob("*"):
        folder.chmod(0o777)
    (tmp_path / "sandbox" / "trees" / "disks").chmod(0o555)
    assert _why_as_nobody(tmp_path) == "None"
    vms.chmod(0o555)
    assert _why_as_nobody(tmp_path) == f"the folder {vms} cannot be written"


def test_a_state_directory_takes_files(tmp_path: Path):
    for name in ("logs", "artifacts", "sources"):
        (tmp_path / name).mkdir()
    assert why_no_files(tmp_path) is None
    assert _why_with(tmp_path, "logs", "size=1m") == "None"


FOLDERS = [".", "logs", "artifacts", "sources", "sandbox", "sandbox/vms", "sandbox/trees/disks", "qemu/snapshots"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_file_system_without_inodes_is_told(tmp_path: Path, folder: str):
    why = _why_with(tmp_path, folder, "size=1m,nr_inodes=30")
    assert why == f"the file system of {tmp_path / folder} has room for 29 files (inodes), of 1000 needed"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_read_only_file_system_is_told(tmp_path: Path, folder: str):
    assert _why_with(tmp_path, folder, "ro") == f"the folder {tmp_path / folder} is on a read-only file system"
