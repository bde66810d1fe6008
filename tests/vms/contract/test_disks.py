"""Disks and snapshots: what a fork sees, what is kept, and what it takes."""

from __future__ import annotations

import pytest

from actors.vms import Provider, SnapshotNotFound, VmError, VmLost
from tests.vms.contract.conftest import Boot
from tests.vms.contract.hosts import IMAGE
from tests.waiting import until

MB = 1 << 20


def test_a_fork_sees_its_parents_files_and_no_siblings(boot: Boot):
    parent = boot()
    parent.run("echo parent > /workspace/file; echo kept > /workspace/kept")
    taken = parent.snapshot("taken")
    first, second = boot(taken), boot(taken)
    first.run("echo first > /workspace/file; echo first > /workspace/first")
    assert first.run("cat /workspace/file; cat /workspace/kept") == (0, b"first\nkept\n")
    assert second.run("cat /workspace/file") == (0, b"parent\n")
    assert second.run("test -e /workspace/first") == (1, b"")
    assert boot(second.snapshot("again")).run("cat /workspace/kept") == (0, b"kept\n")


PUT = ("mkfifo $1", "ln -s /nowhere $1", "ln -s /proc $1", "ln -s $1 $1", "mknod $1 c 0 0; echo >$1")
FOLDERS = "mkdir -p $1/full"
OWN = "/etc/hosts /etc/hostname /etc/resolv.conf /tmp /workspace"


@pytest.mark.real
@pytest.mark.essential
def test_folders_in_place_of_a_vms_own_files_fail_no_fork(boot: Boot):
    leave_in_own_paths(boot, FOLDERS)


@pytest.mark.real
@pytest.mark.parametrize("put", PUT)
def test_what_a_job_leaves_in_a_vms_own_paths_fails_no_fork(boot: Boot, put: str):
    leave_in_own_paths(boot, put)


def leave_in_own_paths(boot: Boot, put: str) -> None:
    """The files that a VM writes for a job, and the folders that it needs, are there again in a fork."""
    parent = boot()
    parent.run(f"cd /; for path in {OWN}; do rm -rf $path; set -- $path; {put}; done")
    fork = boot(parent.snapshot("taken"), network=True)
    written = "cat /etc/hostname; grep -c localhost /etc/hosts; grep -c ^nameserver /etc/resolv.conf"
    assert fork.run(written) == (0, b"vm\n2\n1\n")


@pytest.mark.real
def test_a_fork_waits_for_no_folder_of_very_many_files(boot: Boot):
    """It begins without the file that the folder stands for."""
    parent = boot()
    made = "rm -f /etc/hosts; mkdir /etc/hosts; cd /etc/hosts; seq 10500 | xargs touch; ls | wc -l"
    assert parent.run(made) == (0, b"10500\n")
    fork = boot(parent.snapshot("taken"))
    assert fork.run("cat /etc/hostname; ls /etc/hosts | wc -l") == (0, b"vm\n500\n")


@pytest.mark.real
def test_a_job_without_etc_has_forks(boot: Boot):
    parent = boot()
    parent.run("mv /etc /other; ln -s /proc /etc")
    assert boot(parent.snapshot("taken")).run("echo well") == (0, b"well\n")


def test_a_snapshot_ends_its_vm_and_is_named(boot: Boot):
    vm = boot()
    vm.provider.snapshot(vm.id, "taken")
    assert not vm.provider.alive(vm.id)
    assert list(vm.provider.snapshots()) == ["taken"]
    assert list(vm.provider.list()) == [vm.id]
    with pytest.raises(VmLost):
        vm.provider.connect(vm.id)


def test_a_snapshot_asked_for_again_after_a_crash_is_there(boot: Boot):
    vm = boot()
    for _ in range(2):
        vm.provider.snapshot(vm.id, "taken")
    assert list(vm.provider.snapshots()) == ["taken"]


def test_a_snapshots_name_is_taken_once(boot: Boot):
    first, second = boot(), boot()
    first.provider.snapshot(first.id, "taken")
    with pytest.raises(VmError, match="already"):
        second.provider.snapshot(second.id, "taken")


@pytest.mark.essential
def test_a_vm_that_was_never_made_has_no_snapshot(provider: Provider):
    with pytest.raises(VmLost):
        provider.snapshot("never-made", "taken")
    assert list(provider.snapshots()) == []


def test_a_snapshot_in_use_stays_and_goes_with_its_last_user(boot: Boot, provider: Provider):
    grandparent = boot().snapshot("grandparent")
    parent = boot(grandparent).snapshot("parent")
    vm = boot(parent)
    for name in (grandparent, parent):
        with pytest.raises(VmError, match="in use"):
            provider.remove_snapshot(name)
    assert vm.run("echo well") == (0, b"well\n")
    provider.destroy(vm.id)
    with pytest.raises(VmError, match="in use"):
        provider.remove_snapshot(grandparent)
    for name in (parent, grandparent, "never-made"):
        provider.remove_snapshot(name)
    assert list(provider.snapshots()) == []
    with pytest.raises(SnapshotNotFound):
        boot(parent)


def test_a_snapshot_knows_its_image(boot: Boot, provider: Provider):
    assert provider.snapshot_image(boot().snapshot("taken")) == IMAGE
    assert provider.snapshot_image("never-made") is None


def test_what_a_vm_wrote_is_measured_without_its_base(boot: Boot, provider: Provider):
    below = boot()
    assert provider.disk(below.id).bytes < MB
    below.run("cat > /workspace/data", stdin=bytes(3 * MB))
    until(lambda: provider.disk(below.id).bytes >= 3 * MB, "the data on the disk")
    assert provider.disk(below.id).bytes < 4 * MB
    above = boot(below.snapshot("below"))
    above.run("cat > /workspace/more", stdin=bytes(MB))
    until(lambda: provider.disk(above.id).bytes >= MB, "the data on the disk")
    assert provider.disk(above.id).bytes < 2 * MB
    above.snapshot("above")
    sizes = [provider.snapshot_bytes(name) for name in ("below", "above", "never-made")]
    assert [size // MB for size in sizes] == [3, 1, 0]
