"""Checks of what machines need, the VMs of the provider `qemu`, where somebody chooses it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import ImageNotFound, VmError
from actors.vms.host import BootFiles, IdMap, KernelPackage, static_busybox
from actors.vms.qemu import find_accelerator, require_program
from ci_daemon.doctor.check import Check, failed_from_message, passed
from ci_daemon.doctor.chosen_providers import chosen_providers
from ci_daemon.providers import open_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.vms import QemuSettings
    from ci_daemon.config import Config

_DISKS = (("qemu-img", "qemu-utils"), ("mke2fs", "e2fsprogs"))


def machines(state_dir: Path, config: Config) -> Iterator[Check]:
    """Yield the result of each check, if the configuration or an organization chooses machines."""
    if "qemu" not in chosen_providers(state_dir, config):
        return
    for program, package in _DISKS:
        if path := shutil.which(program):
            yield passed(program, f"{path}: it makes the disks of machines")
        else:
            fix = f"apt-get install -y {package}"
            yield Check(program, ok=False, detail=f"{program} is not installed: machines have no disk", fix=fix)
    yield _base_image(state_dir, config)
    yield from _boot(config.qemu)


def _base_image(state_dir: Path, config: Config) -> Check:
    """Check that the guest of a machine, whose PID 1 is a Python program, finds Python in the base image."""
    name = "machines' image"
    try:
        images = open_images(state_dir, config)
        tree = images.path(images.base)
    except ImageNotFound:
        detail = "machines boot from the base image, which is missing: build it with `ci-daemon image build`"
        return Check(name, ok=False, detail=detail, fixable=False, needed=False)
    except VmError as error:
        return failed_from_message(name, str(error))
    if not (tree / "usr/bin/python3").is_symlink() and not (tree / "usr/bin/python3").exists():
        detail = f"the image {images.base} lacks python3, which machines need: set sandbox.base_image to another one"
        return Check(name, ok=False, detail=detail, fixable=False)
    return passed(name, f"machines boot from the image {images.base}")


def _boot(settings: QemuSettings) -> Iterator[Check]:
    """Check QEMU, the kernel and what boots it."""
    needs: list[tuple[str, str, Callable[[], object]]] = [
        ("qemu", "it runs machines", require_program),
        ("kernel", "machines boot it", lambda: KernelPackage.newest(settings.system).image),
        ("busybox", "it prepares the root of machines", static_busybox),
    ]
    complete = True
    for name, purpose, find in needs:
        try:
            yield passed(name, f"{find()}: {purpose}")
        except VmError as error:
            complete = False
            yield failed_from_message(name, str(error))
    if complete:
        yield _acceleration(settings)


def _acceleration(settings: QemuSettings) -> Check:
    """See by a boot if KVM works."""
    with tempfile.TemporaryDirectory(prefix="ci-daemon-doctor-") as folder:
        try:
            boot = BootFiles.make(Path(folder), settings.system)
            found = find_accelerator(require_program(), boot, IdMap.of_caller())
        except VmError as error:
            return failed_from_message("kvm", str(error))
    if found.kvm:
        return passed("kvm", found.why)
    slow = "machines run many times slower, on an emulated processor"
    return failed_from_message("kvm", f"{slow}: {found.why}", needed=False)
