"""Checks of the members of an engine, on which the provider `incus` makes VMs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from actors.vms import VmError
from actors.vms.host import static_busybox
from ci_daemon.doctor.check import Check, failed_from_message, passed
from ci_daemon.doctor.chosen_providers import chosen_providers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.vms import IncusSettings
    from actors.vms.incus import Access, MemberReport
    from ci_daemon.config import Config

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
        yield from _boot(config.qemu.system)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for found in threads.map(partial(_member, access, config.incus), addresses or (None,)):
            yield from found


def _boot(system: Path) -> Iterator[Check]:
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
