"""Checks of the host: programs, ids, namespaces, devices."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import VmError
from actors.vms.host import IdMap, NoSubIds, run_mapped
from ci_daemon.doctor.check import Check, failed_from_message, passed
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLDEST_PYTHON = (3, 11)
_HEADER_BYTES = 12 * 512
_HEADER_SECONDS = 0.02
_TUN = Path("/dev/net/tun")
_MODE_FOR_ALL = 0o666
_TIMEOUT_SECONDS = 20.0

_MORE_RIGHTS = "start a container with more rights (podman, docker: --privileged)"

_MOUNT = """
mkdir lower upper work merged
mount -c -t overlay overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work merged
echo written > merged/file
test -s upper/file
"""
"""Mount an overlay as a VM does.

With -c, mount does not resolve the path of the folder, which may be closed to the mapped ids.
"""


def needed_by_vms(directory: Path) -> Iterator[Check]:
    """Yield the result of each check of what VMs in a directory, and images, need of the host."""
    yield python()
    yield from packages()
    yield sub_ids()
    found = namespaces()
    yield found
    if found.ok:  # overlays are tried in one
        yield overlay(directory)
    if found.ok or found.fixable:  # a container that must be started with more rights gets devices with them
        yield tun()


def python() -> Check:
    """Check the version of Python. Older versions cannot even parse this file, so the check always passes."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Check("python", ok=False, detail=f"Python {version} is too old: install 3.11 or later")
    if _seconds_of_long_header() > _HEADER_SECONDS:
        why = (
            "its tarfile reads some archives slowly (CVE-2024-6232), which the service bounds: upgrade it when you can"
        )
        return passed("python", f"Python {version}; {why}")
    return passed("python", f"Python {version}")


def _seconds_of_long_header() -> float:
    """Return the CPU seconds to read a header of digits: hardly any, or with a slow `tarfile` 0.1."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, _HEADER_BYTES
    began = time.process_time()
    with suppress(tarfile.TarError, ValueError):
        tarfile.open(fileobj=io.BytesIO(header.tobuf() + b"0" * _HEADER_BYTES + bytes(1024))).close()
    return time.process_time() - began


def packages() -> Iterator[Check]:
    """Check the programs that the service runs, and name the packages of missing ones."""
    if os.geteuid() != 0:
        yield _program("uidmap", "newuidmap", "uidmap", "it maps the ids of VMs for ordinary users")
    if pasta := shutil.which("pasta"):
        yield passed("network", f"{pasta}: it connects VMs to the network")
    else:
        yield _program("network", "slirp4netns", "slirp4netns", "it connects VMs to the network")
    yield _program("mmdebstrap", "mmdebstrap", "mmdebstrap", "`ci-daemon image build` needs it", needed=False)
    yield _program("skopeo", "skopeo", "skopeo", "`ci-daemon image pull` downloads with it", needed=False)
    yield _program("umoci", "umoci", "umoci", "`ci-daemon image pull` unpacks with it", needed=False)
    yield _program("git", "git", "git", "repositories are fetched with it", needed=False)
    yield _program("git-lfs", "git-lfs", "git-lfs", "it fetches git LFS from paths and over ssh", needed=False)
    yield _program("ssh", "ssh", "openssh-client", "repositories at ssh URLs are fetched with it", needed=False)


def sub_ids() -> Check:
    """Check the range of ids that VMs run under."""
    try:
        ids = IdMap.of_caller()
    except NoSubIds as error:
        return failed_from_message("sub-ids", str(error))
    last = ids.root_uid + ids.uids[0].count - 1
    return passed("sub-ids", f"VMs run under the ids {ids.root_uid} to {last}")


def namespaces(sysctl: Path = Path("/proc/sys")) -> Check:
    """Check that VMs can be made of namespaces; if not, name the kernel setting that forbids them."""
    forbidding = [("user.max_user_namespaces", "0", "15000")]
    if os.geteuid() != 0:
        forbidding += [
            ("kernel.unprivileged_userns_clone", "0", "1"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ]
    for key, forbidden, allowed in forbidding:
        path = sysctl.joinpath(*key.split("."))
        if path.exists() and path.read_text(encoding="ascii").strip() == forbidden:
            setting = f"{key}={allowed}"
            fix = f"sh -c 'sysctl -w {setting} && echo {setting} >> /etc/sysctl.d/60-ci-daemon.conf'"
            return Check("namespaces", ok=False, detail=f"{key} is {forbidden}: VMs need user namespaces", fix=fix)
    argv, environ = ["unshare", "--user", "true"], {"PATH": os.defpath, "LC_ALL": "C"}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().rpartition(": ")[2]
        detail = (
            f"user namespaces, which VMs need, are not allowed here ({reason}): {_MORE_RIGHTS}; in a chroot they are"
            " never allowed"
        )
        return Check("namespaces", ok=False, detail=detail, fixable=False)
    if os.statvfs(sysctl).f_flag & os.ST_RDONLY:
        detail = f"the limits of VMs cannot be set, because {sysctl} is read-only: {_MORE_RIGHTS}"
        return Check("namespaces", ok=False, detail=detail, fixable=False)
    return passed("namespaces", "user namespaces are allowed")


def overlay(directory: Path) -> Check:
    """Check that an overlay can be mounted below ``directory`` as in a VM: by root of a user namespace."""
    name = "overlay"
    try:
        ids = IdMap.of_caller()
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=nearest_existing(directory)) as folder:
            # To make and remove a folder that belongs to the VMs' ids takes root of both those and the caller's.
            run_as_caller = partial(run_mapped, idmap=ids.with_caller(), cwd=Path(folder), timeout=_TIMEOUT_SECONDS)
            run_as_caller(["mkdir", "trial"])
            try:
                argv = ["unshare", "--mount", "sh", "-ec", _MOUNT]
                run_mapped(argv, idmap=ids, cwd=Path(folder, "trial"), timeout=_TIMEOUT_SECONDS)
            finally:
                run_as_caller(["rm", "-rf", "trial"])
    except NoSubIds:
        return Check(name, ok=False, detail="overlays cannot be tested without sub-ids", fixable=False)
    except (VmError, OSError) as error:
        reason = error_reason(error).splitlines()[-1]
        detail = f"no overlay can be mounted below {directory} ({reason}): put it on ext4, xfs, btrfs or tmpfs"
        return Check(name, ok=False, detail=detail, fixable=False)
    return passed(name, f"overlays can be mounted below {directory}")


def tun(device: Path = _TUN) -> Check:
    """Check the device through which VMs reach the network; distributions open it to all users."""
    try:
        mode = stat.S_IMODE(device.stat().st_mode)
    except FileNotFoundError:
        fix = f"sh -c 'modprobe tun; mkdir -p {device.parent}; [ -e {device} ] || mknod -m 0666 {device} c 10 200'"
        return Check("tun", ok=False, detail=f"{device} is missing: VMs have no network without it", fix=fix)
    if mode & _MODE_FOR_ALL == _MODE_FOR_ALL:
        return passed("tun", f"all users can open {device}")
    detail = f"{device} has mode {mode:04o}: VMs do not run as root, so they have no network"
    return Check("tun", ok=False, detail=detail, fix=f"chmod 0666 {device}")


def clock(installed_file: Path = Path(__file__)) -> Check:
    """Check that the clock is past the installation of this release.

    A wrong clock makes bills and the expiry of tokens wrong.
    """
    if time.time() >= installed_file.stat().st_mtime:
        return passed("clock", time.strftime("the time is %Y-%m-%d %H:%M:%S UTC", time.gmtime()))
    detail = time.strftime(
        "the clock is wrong: it shows %Y-%m-%d %H:%M, before this program was installed", time.gmtime()
    )
    return Check("clock", ok=False, detail=detail, fix="timedatectl set-ntp true")


def _program(name: str, program: str, package: str, why: str, *, needed: bool = True) -> Check:
    if path := shutil.which(program):
        return passed(name, f"{path}: {why}")
    fix = f"apt-get install -y {package}" if shutil.which("apt-get") else None
    detail = f"{program} is not installed: {why}" + ("" if fix else f"; install the package {package}")
    return Check(name, ok=False, detail=detail, fix=fix, needed=needed)


def nearest_existing(directory: Path) -> Path:
    """Return the folder itself, or its nearest existing parent."""
    return next(folder for folder in (directory, *directory.absolute().parents) if folder.is_dir())
