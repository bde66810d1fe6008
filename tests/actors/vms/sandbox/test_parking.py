"""Parked sandboxes: what is in them before and after a disk is attached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.vms import (
    CommandSpec,
    Connection,
    ConnectionLost,
    ImageError,
    ImageStore,
    SandboxProvider,
    VmError,
    VmSpec,
    start,
)
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.vm_folder import VmFolder
from actors.vms.sandbox import provider as sandboxes
from storage import Shape, SystemClock
from tests.actors.vms.commands import ended
from tests.actors.vms.images.trees import hidden
from tests.actors.vms.sandbox.conftest import IMAGE, Host
from tests.waiting import until


@pytest.fixture
def provider(host: Host) -> SandboxProvider:
    return host.provider()


@pytest.fixture
def parked(host: Host, provider: SandboxProvider) -> str:
    name = host.name()
    provider.park(name)
    return name


@pytest.fixture
def connection(provider: SandboxProvider, parked: str) -> Iterator[Connection]:
    with Connection(provider.connect(parked), SystemClock()) as connection:
        yield connection


def test_a_vm_has_the_weight_given_before_it_was_made(host: Host, provider: SandboxProvider) -> None:
    """Nobody's VM has nearly none until it has a job; of a job's own the group is made with its share."""
    awaited, nobodys = host.name(), host.name()
    provider.weigh(awaited, 50)
    for vm, parked, attached in ((awaited, 50, 50), (nobodys, 1, 100)):
        provider.park(vm)
        assert weights(provider, f"{vm}@service") == {parked}
        provider.attach(VmSpec(vm, IMAGE, network=False))
        assert weights(provider, f"{vm}@service") | weights(provider, vm) == {attached}


def weights(provider: SandboxProvider, part: str) -> set[int]:
    """Return the weights of the control groups of a VM's part, in hundredths of the usual one."""
    found = set()
    for each in provider.limits.hierarchies:
        if "cpu" in each.controllers:
            file, usual = ("cpu.shares", 1024) if each.version == 1 else ("cpu.weight", 100)
            found.add(round(int((each.folder(provider.group_name(part)) / file).read_text()) * 100 / usual))
    return found


def test_nothing_runs_in_the_job_before_it_has_a_disk(
    provider: SandboxProvider, parked: str, connection: Connection
) -> None:
    with pytest.raises((VmError, ConnectionLost)):
        start(connection, CommandSpec("true"))
    provider.attach(VmSpec(parked, IMAGE, network=False))
    start(connection, CommandSpec("exit 4"))
    assert ended(connection).exit_code == 4


def test_an_attach_outlives_the_service_that_began_it(
    provider: SandboxProvider, parked: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited: list[int] = []

    def sent(vm: VmFolder, report: int, seconds: float) -> None:
        """Wait for the disk to be sent, but not for the VM's answer, whose socket closes then."""
        awaited.append(report)
        if len(awaited) == 1:
            await_ready(vm, report, seconds)

    await_ready = sandboxes.await_ready
    monkeypatch.setattr(sandboxes, "await_ready", sent)
    provider.attach(VmSpec(parked, IMAGE, network=False))
    assert len(awaited) == 2
    until(lambda: _has_started(connection, "exit 4"), "a command in the disk that was sent")
    assert ended(connection).exit_code == 4


def test_a_vm_outlives_the_service_that_began_to_park_it(
    host: Host, provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next service may have attached a disk before the VM says that it is parked."""

    class Unheard:
        def start(self, program: str, arguments: dict[str, Any], descriptors: list[int]) -> None:
            """Start a program whose report nobody reads, and report in its place."""
            read, write = os.pipe()
            os.close(read)
            zygote.start(program, arguments, [write, *descriptors[1:]])
            os.close(write)
            os.write(descriptors[0], b"ready\n")

    zygote, name = provider.zygote, host.name()
    with monkeypatch.context() as patched:
        patched.setattr(provider, "zygote", Unheard())
        provider.park(name)
    provider.attach(VmSpec(name, IMAGE, network=False))
    said = f"ci-daemon VM {name}".encode()
    until(lambda: said in Path(f"/proc/{provider.monitor(name)}/cmdline").read_bytes(), "what comes after the report")
    with Connection(provider.connect(name), SystemClock()) as connection:
        start(connection, CommandSpec("exit 4"))
        assert ended(connection).exit_code == 4


def test_a_parked_vm_has_the_limits_of_no_job(provider: SandboxProvider, parked: str) -> None:
    group = provider.group_name(parked)
    assert not [each for each in provider.limits.groups(group) if each.exists()]
    assert all(each.exists() for each in provider.limits.groups(f"{group}@service"))
    provider.attach(VmSpec(parked, IMAGE, shape=Shape(memory_gb=3), network=False))
    limits = [each / name for each in provider.limits.groups(group) for name in ("memory.limit_in_bytes", "memory.max")]
    assert [int(limit.read_text()) for limit in limits if limit.exists()] in ([3 << 30], [])


class TestBaseImage:
    @pytest.fixture
    def store(self, image_store: ImageStore, idmap: IdMap, tmp_path: Path) -> Iterator[ImageStore]:
        """A store of its own, with a base image that may be removed."""
        store = ImageStore(tmp_path / "images", idmap)
        left_out = [f"--exclude=./{place}" for place in ("usr/share", "usr/lib/python3*", "usr/lib/gcc", "var")]
        pack = ["tar", "--create", "--numeric-owner", *left_out, "."]
        tar = run_mapped(pack, idmap=idmap, cwd=image_store.path(IMAGE))
        (tmp_path / "base.tar").write_bytes(tar)
        with (tmp_path / "base.tar").open("rb") as file:
            store.import_(IMAGE, file)
        yield store
        run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)

    def test_a_base_image_stays_while_vms_live(self, host: Host, store: ImageStore, idmap: IdMap) -> None:
        provider = SandboxProvider(host.folder, store, idmap, SystemClock())
        host.opened.append(provider)
        names = [host.name(), host.name()]
        for name in names:
            provider.park(name)
        provider.attach(VmSpec(names[1], IMAGE, network=False))
        for name in names:
            with pytest.raises(ImageError, match=f'image "{IMAGE}" is in use: its sshd serves VMs'):
                store.remove(IMAGE)
            assert store.names() == [IMAGE]
            provider.destroy(name)
        store.remove(IMAGE)
        assert store.names() == []
        assert hidden(host.folder.parent / "images") == []

    def test_a_missing_base_image_is_an_error_with_the_remedy(self, host: Host) -> None:
        provider = SandboxProvider(host.folder, host.images, host.idmap, SystemClock(), base_image=lambda: "none:1")
        host.opened.append(provider)
        for make in (provider.park, lambda name: provider.create(VmSpec(name, IMAGE, network=False))):
            with pytest.raises(VmError, match=r"VMs need an image with sshd, run `ci-daemon image build`: no image"):
                make(host.name())
        assert list(provider.list()) == []


def _has_started(connection: Connection, command: str) -> bool:
    try:
        start(connection, CommandSpec(command))
    except ConnectionLost:  # the VM may still be at its disk
        return False
    return True
