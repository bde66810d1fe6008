"""A VM's life as its provider sees it: made, found again and ended, also if another process made it."""

from __future__ import annotations

import os
import select
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors.vms import Connection, SandboxProvider, SandboxSettings, VmError, VmSpec
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.control_groups import remove_groups
from actors.vms.host.vm_folder import VmFolder
from actors.vms.sandbox import provider as sandboxes
from storage import SystemClock
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Host
from tests.registry import busybox
from tests.sleeper import Sleeper
from tests.vms.contract.daemon import Daemon
from tests.waiting import until


def test_a_new_vm_answers_its_first_command_as_root(boot: Boot) -> None:
    assert boot().says("id -u; pwd") == "0\n/"


def test_a_closed_connection_is_replaced(host: Host) -> None:
    provider = host.provider()
    vm = VmSpec(host.name(), IMAGE, network=False)
    provider.create(vm)
    with Connection(host.provider().connect(vm.id), SystemClock()) as other:
        kill = "kill -9 $p; while [ -e /proc/$p ]; do sleep 0.01; done"
        other.run(f"for p in $(pgrep sshd); do [ $p = $PPID ] || {{ {kill}; }}; done", timeout=60)
    with Connection(provider.connect(vm.id), SystemClock()) as connection:
        assert connection.run("true", timeout=60).exit_code == 0


class Bases:
    """Images of which each is the tree of a base image."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree

    def path(self, _: str) -> Path:
        return self._tree


BaseWith = Callable[[str | None], SandboxProvider]


@pytest.fixture
def base_with(host: Host, tmp_path: Path, idmap: IdMap) -> Iterator[BaseWith]:
    """Make a provider whose base image is busybox and a shell script in place of sshd, if one is given."""

    def make(sshd: str | None) -> SandboxProvider:
        with (tmp_path / "layer").open("w+b") as layer:
            layer.write(busybox())
            layer.seek(0)
            script = """
                mkdir base base/proc base/sys base/dev base/run base/tmp base/etc base/usr base/usr/sbin
                tar -C base -xf - && echo root:x:0:0::/root:/bin/sh >base/etc/passwd
                [ -z "$1" ] || printf '#!/bin/sh\n%s\n' "$1" >base/usr/sbin/sshd
                [ -z "$1" ] || chmod 755 base/usr/sbin/sshd
            """
            argv = ["sh", "-ec", script, "sh", sshd or ""]
            run_mapped(argv, idmap=idmap.with_caller(), cwd=tmp_path, stdin=layer)
        provider = SandboxProvider(host.folder, Bases(tmp_path / "base"), idmap, SystemClock())
        host.opened.append(provider)
        return provider

    yield make
    run_mapped(["rm", "-rf", "base"], idmap=idmap.with_caller(), cwd=tmp_path)


def test_a_base_image_without_sshd_is_refused_and_leaves_nothing(host: Host, base_with: BaseWith) -> None:
    provider = base_with(None)
    with pytest.raises(VmError, match=r"the base image has no /usr/sbin/sshd: build it with `ci-daemon image build`"):
        provider.park(host.name())
    assert list(provider.list()) == []


@pytest.mark.parametrize(
    ("sshd", "fault", "patience"), [("exit 1", "ended at once", 60.0), ("sleep 60", "does not answer", 0.1)]
)
def test_a_silent_sshd_is_reported_and_leaves_nothing(
    host: Host, base_with: BaseWith, sshd: str, fault: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the wait for sshd is short, since a busy host may take long to start the VM."""
    await_greeting = sandboxes.await_greeting
    monkeypatch.setattr(sandboxes, "await_greeting", lambda vm, connection, _: await_greeting(vm, connection, patience))
    provider = base_with(sshd)
    with pytest.raises(VmError, match=fault):
        provider.park(host.name())
    assert list(provider.list()) == []


def test_making_a_vm_has_a_deadline_and_leaves_nothing_then(host: Host) -> None:
    provider = host.provider(SandboxSettings(create_seconds=0.0))
    with pytest.raises(VmError, match="in time"):
        provider.create(VmSpec(host.name(), IMAGE, network=False))
    assert list(provider.list()) == []


@pytest.mark.parametrize("made", ["vms/{}/lock", "trees/disks/{}/upper", "sshd"])
def test_destroying_a_vm_that_is_being_parked_ends_the_making(host: Host, base_with: BaseWith, made: str) -> None:
    sleeper = Sleeper()
    provider, name = base_with(sleeper.command), host.name()  # so that the making does not end by itself
    failed = threading.Event()

    def park() -> None:
        try:
            provider.park(name)
        except VmError:
            failed.set()

    thread = threading.Thread(target=park)
    thread.start()
    if made == "sshd":
        sleeper.wait_for(runs=True)
    else:
        until((host.folder / made.format(name)).exists, made)
    provider.destroy(name)
    thread.join(60)
    assert failed.is_set()
    assert list(provider.list()) == []


@pytest.mark.parametrize("removed", [False, True])
def test_a_vm_that_was_ended_before_its_first_process_gets_none(
    host: Host, monkeypatch: pytest.MonkeyPatch, *, removed: bool
) -> None:
    """Another thread destroys it, and is as far as that when the making goes on."""
    make = VmFolder.make

    def make_and_end(vm: VmFolder) -> None:
        make(vm)
        vm.end(0)
        if removed:
            vm.remove()

    monkeypatch.setattr(VmFolder, "make", make_and_end)
    provider, name = host.provider(), host.name()
    with pytest.raises(VmError, match=f"VM {name} was destroyed while it was made"):
        provider.park(name)
    assert list(provider.list()) == []


@pytest.mark.parametrize("delay_ms", [0, 4, 8, 12, 16, 24, 32, 48])
def test_a_vm_whose_launcher_was_killed_is_freed(host: Host, images_dir: Path, delay_ms: int) -> None:
    name = host.name()
    daemon = Daemon("sandbox", host.folder, images_dir, name)
    daemon.wait_for("begins")
    threading.Event().wait(delay_ms / 1000)
    daemon.kill()
    provider = host.provider()
    for left in provider.list():
        assert left == name
        provider.destroy(left)
    assert list(provider.list()) == []
    assert host.processes() == []


@pytest.mark.parametrize("left", ["folder", "record", "lock", "disk", "trash", "half a line"])
def test_whatever_a_crash_left_is_listed_and_freed(host: Host, idmap: IdMap, left: str) -> None:
    provider, name = host.provider(), host.name()
    trees = host.folder / "trees"
    if left in {"folder", "record", "lock", "half a line"}:
        (host.folder / "vms" / name).mkdir()
    if left == "record":
        (host.folder / "vms" / name / "record").write_text('{"private_key": "')
    if left == "lock":
        (host.folder / "vms" / name / "lock").write_text(f"{os.getpid()} 1\n")
    if left == "half a line":
        (host.folder / "vms" / name / "lock").write_text(f"{os.getpid()} 1\n12")
    if left in {"disk", "trash"}:
        place = {"disk": "disks", "trash": "trash/disks"}[left]
        script = 'mkdir -p "$1/$2/work/work" && chmod 0 "$1/$2/work/work" && echo x > "$1/$2/file"'
        run_mapped(["sh", "-c", script, "sh", place, name], idmap=idmap, cwd=trees)
    assert list(provider.list()) == [name]
    assert not provider.alive(name)
    provider.destroy(name)
    assert list(provider.list()) == []


def test_a_vm_whose_folder_was_removed_ends_by_itself(host: Host, boot: Boot) -> None:
    vm = boot(network=True)
    (monitor,) = [process for process in vm.folder.processes() if process.alive]
    groups = vm.folder.record().groups
    shutil.rmtree(host.folder / "vms" / vm.id)
    ended = os.pidfd_open(monitor.pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    assert poll.poll(20_000)
    os.close(ended)
    remove_groups(Path(group) for group in groups)


def test_twenty_vms_at_once(host: Host) -> None:
    provider = host.provider()
    names = [host.name() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda name: provider.create(VmSpec(name, IMAGE, network=False)), names))
        assert sorted(provider.list()) == sorted(names)

        def ask(name: str) -> bytes:
            with Connection(provider.connect(name), SystemClock()) as connection:
                return connection.run("echo $$", timeout=60).stdout

        assert len(list(pool.map(ask, names))) == 20
        list(pool.map(provider.destroy, names))
    assert list(provider.list()) == []


def test_providers_in_two_folders_do_not_see_each_other(host: Host, boot: Boot) -> None:
    vm = boot()
    other = Host(host.folder.with_name("other"), host.images, host.idmap)
    provider = other.provider()
    assert list(provider.list()) == []
    provider.create(VmSpec(vm.id, IMAGE, network=False))
    provider.destroy(vm.id)
    assert vm.says("echo still here") == "still here"
    run_mapped(["rm", "-rf", "other"], idmap=host.idmap.with_caller(), cwd=host.folder.parent)
