"""The two roots of a VM: of its outer layer, and of its job (engine.md, "Parked VMs").

The outer layer is the service's own tree, with sshd. No process of the job is in it. Its root is the base tree,
read-only; only ``/run`` and ``/tmp`` can be written.

The job's root is its disk, with its file systems and identity. All paths there are the job's own. Once its disk is the
root, no path leads to the outer layer or to the host, so the links in a snapshot cannot lead out of the VM.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from .kernel import (
    MS_BIND,
    MS_MOVE,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    attach_mount,
    copy_of_mount,
    mount,
    pivot_root,
    set_hostname,
    unmount,
)
from .trees import make_directory, make_mount_point, mount_devices, mount_processes, mount_system, write_file

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any


SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = "/run/ci-daemon/ssh/sshd_config"
FOLDER = "/run/ci-daemon"
REQUESTS = "/run/ci-daemon/requests"
SUPERVISOR = "/run/ci-daemon/supervisor"
WORKSPACE = "/run/ci-daemon/workspace"
JOB_ROOT = "/run/ci-daemon/job"
"""The place at which the job's disk is mounted before it becomes the root of the job's namespaces."""

SEND_BYTES = 1 << 20
"""The most output on its way through a socket, where the host allows it: its ends wait less often."""

STAGE = "/run/ci-daemon/stage"
"""The folder of mounts that wait for the job's disk."""

_SHELL = "/bin/sh"
_SIZE = "64m"
_SSHD_CONFIG = """\
HostKey /run/ci-daemon/ssh/host_key
AuthorizedKeysFile /run/ci-daemon/ssh/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
AllowUsers root
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitUserRC no
PermitUserEnvironment no
X11Forwarding no
AllowAgentForwarding no
PrintMotd no
PrintLastLog no
MaxSessions 1000
MaxAuthTries 100
LoginGraceTime 0
LogLevel QUIET
PidFile none
Subsystem sftp internal-sftp
"""


def enter_outer_root(spec: dict[str, Any]) -> None:
    """Make the working directory, a mount of the base tree, the root of this process. Raises OSError.

    The mount came from the outer user namespace, so it is locked in its place; a bind mount over it is not.
    """
    mount(".", ".", flags=MS_BIND)
    os.chdir(f"../{os.path.basename(os.getcwd())}")
    host = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pivot_root(".", ".")
    os.fchdir(host)
    os.umask(0)
    mount_processes("/proc")
    mount_system("/sys")
    mount_devices("dev", "/dev")
    terminals = f"newinstance,max={spec['terminals']},ptmxmode=666,mode=620,gid=5"
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, terminals)
    for folder, mode in (("/run", 755), ("/tmp", 1777)):  # noqa: S108 - the VM's own
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode},size={_SIZE}")
    unmount(".")
    os.chdir("/")
    os.close(host)
    os.umask(0o077)
    set_hostname(HOSTNAME)
    prepare(spec["host_key"], spec["authorized_key"])
    os.umask(0o022)


def prepare(host_key: str, authorized_key: str) -> None:
    """Make the folders and files that sshd and the job's supervisor need, in a ``/run`` that is mounted."""
    if not os.access(SSHD, os.X_OK):
        message = f"the base image has no {SSHD}: build it with `ci-daemon image build`"
        raise OSError(message)
    for folder in (FOLDER, f"{FOLDER}/ssh", JOB_ROOT, STAGE, WORKSPACE, "/run/sshd"):
        os.mkdir(folder, 0o755 if folder == "/run/sshd" else 0o700)
    write_file(f"{FOLDER}/ssh/host_key", host_key, 0o600)
    write_file(f"{FOLDER}/ssh/authorized_keys", f"{authorized_key}\n", 0o600)
    write_file(SSHD_CONFIG, _SSHD_CONFIG, 0o600)
    os.mkfifo(REQUESTS, 0o600)
    os.mkfifo(f"{FOLDER}/hold", 0o600)
    _log_in_with(_SHELL)


def _log_in_with(shell: str) -> None:
    """Give root another login shell: bash takes longer to start, and reads ``~/.bashrc``."""
    with open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
        users = file.read().splitlines(keepends=True)
    changed = [f"{line.rpartition(':')[0]}:{shell}\n" if line.startswith("root:") else line for line in users]
    write_file(f"{FOLDER}/passwd", "".join(changed), 0o644)
    mount(f"{FOLDER}/passwd", "/etc/passwd", flags=MS_BIND)


HOSTNAME = "vm"

_TMP_MODE = 0o1777
_STAGED = ("proc", "dev")
_HOSTS = f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback\n"


def stage(folder: str) -> None:
    """Mount in ``folder`` what needs nothing of the job, before its disk comes. Raises OSError.

    The terminals are those of the outer layer, so that a shell that enters from there has one.
    """
    os.umask(0)
    for part in _STAGED:
        os.mkdir(f"{folder}/{part}")
    mount_processes(f"{folder}/proc")
    mount_devices("/dev", f"{folder}/dev")
    mount("/dev/pts", f"{folder}/dev/pts", flags=MS_BIND)
    os.mkdir(f"{folder}/dev/shm", _TMP_MODE)  # noqa: S108 - the guest's own


def enter_job_root(disk: str, staged: str, memory_bytes: int, resolver: str | None, services: list[str]) -> None:
    """Make the job's disk, a mount at ``disk``, the root of this mount namespace. Raises OSError.

    What is mounted in the folder ``staged`` moves there. ``services`` are host names of the VM, besides its own.
    """
    os.chdir(disk)
    outer = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pivot_root(".", ".")
    os.fchdir(outer)
    os.umask(0)
    for path in ("/proc", "/sys", "/dev", "/run", "/workspace"):
        make_mount_point(path, 0o755)
    make_directory("/tmp", 0o755)  # noqa: S108 - the guest's own
    for part in _STAGED:
        mount(f"{staged[1:]}/{part}", f"/{part}", flags=MS_MOVE)
    mount_system("/sys")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={memory_bytes // 2}")  # noqa: S108 - the guest's own
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={memory_bytes // 4}")
    os.mkdir("/run/lock", _TMP_MODE)
    unmount(".")
    os.chdir("/")
    os.close(outer)
    os.umask(0o022)
    _identify(resolver, HOSTNAME, services)


_BORROWED = "/run"
"""The place of the job's root where the disk of a service is mounted before it is that service's root.

It is a mount of this service's, so that no link of the job's disk leads elsewhere.
"""


def enter_service_root(disk: int, spec: dict[str, Any]) -> None:
    """Make a service's disk, a mount in no namespace, the root of this mount namespace. Raises OSError.

    This process is in a copy of the job's namespace. Folders of the job's disk that the service is to have are made
    there unless they exist. Nothing else is mounted over the image's own folders.
    """
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    folders: list[tuple[str, int]] = []
    for path, of_job in spec["files"].items():
        os.makedirs(of_job, exist_ok=True)
        folders.append((path, copy_of_mount(of_job)))
    attach_mount(disk, _BORROWED)
    os.chdir(_BORROWED)
    outer = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pivot_root(".", ".")
    os.fchdir(outer)
    os.umask(0)
    for path in ("/proc", "/sys", "/dev"):
        make_mount_point(path, 0o755)
    mount_processes("/proc")
    mount_devices("dev", "/dev")
    mount("dev/pts", "/dev/pts", flags=MS_BIND)
    os.mkdir("/dev/shm", _TMP_MODE)  # noqa: S108 - the service's own
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={spec['memory_bytes'] // 2}")  # noqa: S108 - the service's own
    mount_system("/sys")
    make_directory("/tmp", _TMP_MODE)  # noqa: S108 - the service's own
    os.umask(0o022)
    for path, tree in folders:
        os.makedirs(path, exist_ok=True)
        attach_mount(tree, path)
        os.close(tree)
    os.makedirs(spec["folder"], exist_ok=True)
    unmount(".")
    os.chdir("/")
    os.close(outer)
    set_hostname(spec["name"])
    _identify(spec["resolver"], spec["name"], spec["services"])


def _identify(resolver: str | None, hostname: str, services: list[str]) -> None:
    """Write the VM's identity to the disk.

    What an earlier job left there, such as `/etc` as a link to a file system that takes no files, is its own affair:
    the command runs without what cannot be written.
    """
    with suppress(OSError):
        if stat.S_IMODE(os.stat("/tmp").st_mode) != _TMP_MODE:  # noqa: S108 - the VM's own
            os.chmod("/tmp", _TMP_MODE)  # noqa: S108 - the VM's own
    with suppress(OSError):
        make_directory("/etc", 0o755)
    identity = {
        "/etc/hosts": _HOSTS + "".join(f"127.0.0.1 {name}\n" for name in services),
        "/etc/hostname": f"{hostname}\n",
        "/etc/resolv.conf": f"nameserver {resolver}\noptions edns0\n" if resolver else "",
    }
    for path, text in identity.items():
        with suppress(OSError):
            write_file(path, text)
