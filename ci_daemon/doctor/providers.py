"""Checks of the providers `qemu` and `incus`, where the configuration or an organization chooses them.

Machines are the VMs of `qemu`; members are the hosts of an engine, on which `incus` makes VMs.
"""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import ImageNotFound, VmError
from actors.vms.host import BootFiles, IdMap, KernelPackage, static_busybox
from actors.vms.qemu import find_accelerator, require_program
from ci_daemon.doctor.check import Check, failed_from_message, passed
from ci_daemon.providers import open_images
from storage import StorageError, frozen, schema_of_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.vms import IncusSettings, QemuSettings
    from actors.vms.incus import Access, MemberReport
    from ci_daemon.config import Config


_DISKS = (("qemu-img", "qemu-utils"), ("mke2fs", "e2fsprogs"))
_AT_ONCE = 16
_SHARING = frozenset({"btrfs", "zfs", "lvm", "ceph"})
_LEAST_FREE_SHARE = 0.1
_LEAST_VALID = timedelta(days=30)
_MOST_SECONDS_APART = 5.0
_GIB = 1 << 30
_MACHINE_NEEDS = (
    "give it KVM and vhost_vsock, install qemu-system-x86, qemu-system-modules-spice, qemu-utils, ovmf, virtiofsd and "
    "incus-agent there, and restart the engine; LXD makes none for jobs"
)
_LIMITS = ("cpu", "memory controller", "pids")
"""Words in an engine's warnings of control groups without which limits of VMs do not hold."""


def chosen_providers(state_dir: Path, config: Config) -> set[str | None]:
    """Return the providers that the configuration or an organization chooses."""
    return {*_configured(config), *_of_organizations(state_dir)}


def _configured(config: Config) -> Iterator[str | None]:
    yield config.pool.provider
    yield from config.pool.image_providers.values()
    yield config.repositories.fork_provider


def _of_organizations(state_dir: Path) -> set[str]:
    """Return the choices of organizations; none if the database cannot be read, which another check tells."""
    try:
        with frozen(state_dir) as database:
            return database.providers() if database.schema_version == schema_of_release() else set()
    except StorageError:
        return set()


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
    yield from _boot_of_machines(config.qemu)


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


def _boot_of_machines(settings: QemuSettings) -> Iterator[Check]:
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
    """Check by a boot whether KVM works."""
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


def members(state_dir: Path, config: Config) -> Iterator[Check]:
    """Yield the checks of each member, or one failure if the engine does not answer."""
    if "incus" not in chosen_providers(state_dir, config):
        return
    from actors.vms.incus import Engine, access_of, member_addresses  # noqa: PLC0415 - without members, nothing speaks HTTP

    access = access_of(state_dir / "incus", config.incus)
    try:
        with closing(Engine(access, config.incus.project)) as engine:
            addresses = member_addresses(engine)
    except VmError as error:
        yield Check("members", ok=False, detail=str(error), fixable=False)
        return
    if config.incus.instances == "virtual-machine":
        yield from _boot_of_members(config.qemu.system)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for found in threads.map(partial(_member, access, config.incus), addresses or (None,)):
            yield from found


def _boot_of_members(system: Path) -> Iterator[Check]:
    """Check what machines on members boot, and what makes their disk."""
    from actors.vms.incus import disk_program, efi_stub, machine_kernel  # noqa: PLC0415 - as above

    needs: list[tuple[str, str, Callable[[], object]]] = [
        ("kernel", "machines on members boot it", lambda: machine_kernel(system).image),
        ("efi stub", "it starts the kernel of machines on members", lambda: efi_stub(system)),
        ("busybox", "it prepares the root of machines on members", static_busybox),
        ("qemu-img", "it makes the disk of machines on members", lambda: disk_program("qemu-img")),
        ("mke2fs", "it makes the disk of machines on members", lambda: disk_program("mke2fs")),
    ]
    for name, purpose, find in needs:
        try:
            yield passed(name, f"{find()}: {purpose}")
        except VmError as error:
            yield failed_from_message(name, str(error))


def faults(report: MemberReport, settings: IncusSettings, now: datetime) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong with a member and how to mend it, and whether VMs need that."""
    pool = settings.storage
    if settings.instances == "virtual-machine" and not report.makes_machines:
        yield f"it makes no virtual machines: {_MACHINE_NEEDS}, or set incus.instances to container", True
    if report.driver not in _SHARING:
        yield f"its pool {pool} ({report.driver}) copies whole disks: put it on btrfs, and set incus.storage", False
    if report.free_bytes < report.total_bytes * _LEAST_FREE_SHARE:
        free = f"{report.free_bytes / _GIB:.1f} of {report.total_bytes / _GIB:.1f} GiB"
        yield f"its pool {pool} has {free} free: enlarge it, or remove images and snapshots", True
    if report.certificate_ends is not None and report.certificate_ends < now + _LEAST_VALID:
        end = f"{report.certificate_ends:%Y-%m-%d}"
        yield f"its certificate ends on {end}: renew it, and run `ci-daemon incus setup` again", True
    if report.seconds_ahead is not None and abs(report.seconds_ahead) > _MOST_SECONDS_APART:
        apart = f"{abs(report.seconds_ahead):.0f} s {'before' if report.seconds_ahead > 0 else 'behind'}"
        yield f"its clock is {apart} this host's: synchronize both over the network", True
    for warning in filter(_is_of_our_limits, report.missing_limits or ()):
        yield f"limits may not hold ({warning}): enable this control group in its kernel", False


def _is_of_our_limits(warning: str) -> bool:
    return any(limit in warning.lower() for limit in _LIMITS)


def _member(access: Access, settings: IncusSettings, address: str | None) -> list[Check]:
    from actors.vms.incus import inspect_member  # noqa: PLC0415 - as above

    try:
        report = inspect_member(access, address, settings.project, settings.storage)
    except VmError as error:
        return [Check(f"member {address or 'here'}", ok=False, detail=str(error), fixable=False)]
    name = f"member {report.name}"
    found = [
        Check(name, ok=False, detail=detail, needed=needed, fixable=False)
        for detail, needed in faults(report, settings, datetime.now(UTC))
    ]
    return found or [passed(name, _healthy(report))]


def _healthy(report: MemberReport) -> str:
    until = f", certificate until {report.certificate_ends:%Y-%m-%d}" if report.certificate_ends else ""
    unseen = "; only its administrators see if control groups are missing" if report.missing_limits is None else ""
    kinds = "makes virtual machines, " if report.makes_machines else ""
    return f"version {report.version}, {kinds}{report.driver}, {report.free_bytes / _GIB:.0f} GiB free{until}{unseen}"
