"""The outer layer of a VM: the service's own tree, with sshd (engine.md, "Parked VMs").

No process of the job is in it. Its root is the base tree, read-only; only ``/run`` and ``/tmp`` can be written.
"""

from __future__ import annotations

import os

from .job.root import HOSTNAME
from .kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, mount, pivot_root, set_hostname, unmount
from .trees import mount_devices, mount_processes, mount_system, write_file

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


def enter_root(spec: dict[str, Any]) -> None:
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
