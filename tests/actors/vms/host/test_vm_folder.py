"""The folders of VMs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.vms import VmLost
from actors.vms.host.vm_folder import VmFolder


def test_what_comes_while_a_folder_is_removed_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As the file of the lock does that the maker of a VM makes while another thread destroys the VM."""
    folder = VmFolder(tmp_path / "vm")
    folder.make()
    remove, late = shutil.rmtree, iter(["lock.new"])

    def rmtree(path: Path, *, ignore_errors: bool) -> None:
        remove(path, ignore_errors=ignore_errors)
        for name in late:
            path.mkdir()
            (path / name).touch()

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    folder.remove()
    assert not folder.folder.exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 1263, b'{"private_key": "k', b"\xff\xfe\x00"])
def test_a_record_that_a_crash_of_the_host_damaged_is_lost(tmp_path: Path, content: bytes):
    """A file system may keep the size of a file and none of its bytes."""
    folder = VmFolder(tmp_path / "vm")
    folder.make()
    (folder.folder / "record").write_bytes(content)
    with pytest.raises(VmLost):
        folder.record()
