"""The kernel of machines: found below a folder, with its drivers in the order in which they load."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from actors.vms import VmError
from actors.vms.host import KernelPackage


def make_kernel(system: Path, release: str, modules: dict[str, bytes] | None = None) -> None:
    (system / "boot").mkdir(exist_ok=True)
    (system / "boot" / f"vmlinuz-{release}").write_bytes(b"kernel")
    folder = system / "lib" / "modules" / release / "kernel"
    folder.mkdir(parents=True)
    for name, content in (modules or {}).items():
        (folder / name).write_bytes(content)


def test_the_newest_kernel_with_modules_is_found(tmp_path: Path):
    for release in ("6.1.0-9-amd64", "6.1.0-10-amd64"):
        make_kernel(tmp_path, release)
    (tmp_path / "boot" / "vmlinuz-7.0.0-1-amd64").write_bytes(b"its modules were removed")
    assert KernelPackage.newest(tmp_path).release == "6.1.0-10-amd64"


def test_without_a_kernel_the_error_says_what_to_install(tmp_path: Path):
    with pytest.raises(VmError, match="run `sudo apt-get install -y --no-install-recommends linux-image-"):
        KernelPackage.newest(tmp_path)


def test_drivers_load_after_those_that_they_depend_on(tmp_path: Path):
    modules = {
        "virtio_net.ko": b"\0depends=net_failover\0",
        "net_failover.ko": b"\0depends=failover\0",
        "failover.ko": b"\0depends=\0",
        "virtio-pci.ko.xz": lzma.compress(b"\0depends=\0name=virtio_pci\0"),
        "sound.ko": b"\0depends=\0",
    }
    make_kernel(tmp_path, "6.1.0", modules)
    drivers = KernelPackage.newest(tmp_path).drivers()
    assert [name for name, _ in drivers] == ["virtio_pci", "failover", "net_failover", "virtio_net"]
    assert drivers[0][1].endswith(b"name=virtio_pci\0")


def test_drivers_in_an_unknown_packing_are_refused(tmp_path: Path):
    make_kernel(tmp_path, "6.1.0", {"virtio_pci.ko.zst": b"packed"})
    with pytest.raises(VmError, match=r"qemu\.system"):
        KernelPackage.newest(tmp_path).drivers()
