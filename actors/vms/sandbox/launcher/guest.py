"""The inside of a VM: its file systems, machine identity, and sshd's files (engine.md, "Leases").

All paths here are the guest's own. Once the guest's tree is the root, no path leads to the host, so the links in a
snapshot cannot lead out of the VM.
"""

from __future__ import annotations

import os
import stat

from .kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    mount,
    pivot_root,
    set_hostname,
    unmount,
)

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any

SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = "/run/ci-daemon/ssh/sshd_config"

_HOSTNAME = "vm"
_TMP_MODE = 0o1777
_HOSTS = f"127.0.0.1 localhost {_HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback\n"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
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
# Without this bash takes ~/.bashrc for every command, and what a step of the parent wrote there gets in the way.
SetEnv SHLVL=1
LogLevel QUIET
PidFile none
Subsystem sftp internal-sftp
"""


def enter_root(spec: dict[str, Any]) -> None:
    """Make the working directory, a mount, the root of this process and set it up. Raises OSError.

    The mount came from the outer user namespace, so it is locked in its place; a bind mount over it is not.
    """
    mount(".", ".", flags=MS_BIND)
    os.chdir(f"../{os.path.basename(os.getcwd())}")
    host = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    pivot_root(".", ".")
    os.fchdir(host)
    os.umask(0)
    _mount_all(spec["memory_bytes"])
    unmount(".")
    os.chdir("/")
    os.close(host)
    os.umask(0o022)
    _identify(spec["resolver"])
    _prepare_sshd(spec["host_key"], spec["authorized_key"])


def _mount_all(memory_bytes: int) -> None:
    for path in ("/proc", "/sys", "/dev", "/run", "/tmp", "/workspace"):  # noqa: S108 - the guest's own
        _directory(path, 0o755)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    try:
        mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    except OSError:
        mount("tmpfs", "/sys", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=1m")
    for name in _DEVICES:
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        mount(f"dev/{name}", f"/dev/{name}", flags=MS_BIND)
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts", 0o755)
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=666,mode=620,gid=5")
    os.mkdir("/dev/shm", _TMP_MODE)  # noqa: S108 - the guest's own
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={memory_bytes // 2}")  # noqa: S108 - the guest's own
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={memory_bytes // 4}")
    os.mkdir("/run/lock", _TMP_MODE)


def _identify(resolver: str | None) -> None:
    if stat.S_IMODE(os.stat("/tmp").st_mode) != _TMP_MODE:  # noqa: S108 - the guest's own
        os.chmod("/tmp", _TMP_MODE)  # noqa: S108 - the guest's own
    _directory("/etc", 0o755)
    _file("/etc/hosts", _HOSTS)
    _file("/etc/hostname", f"{_HOSTNAME}\n")
    _file("/etc/resolv.conf", f"nameserver {resolver}\noptions edns0\n" if resolver else "")
    set_hostname(_HOSTNAME)


def _prepare_sshd(host_key: str, authorized_key: str) -> None:
    if not os.access(SSHD, os.X_OK):
        message = f"the image has no {SSHD}: install openssh-server in it"
        raise OSError(message)
    os.mkdir("/run/sshd", 0o755)
    os.mkdir("/run/ci-daemon", 0o700)
    os.mkdir("/run/ci-daemon/ssh", 0o700)
    _file("/run/ci-daemon/ssh/host_key", host_key, 0o600)
    _file("/run/ci-daemon/ssh/authorized_keys", f"{authorized_key}\n", 0o600)
    _file(SSHD_CONFIG, _SSHD_CONFIG, 0o600)


def _directory(path: str, mode: int) -> None:
    """Make a folder unless it exists, in place of anything else of its name."""
    if not os.path.isdir(path):
        if os.path.lexists(path):
            os.unlink(path)
        os.mkdir(path, mode)


def _file(path: str, text: str, mode: int = 0o644) -> None:
    """Write a file in place of anything of its name, unless it has this text, so that forks write nothing."""
    content = text.encode()
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as file:
            if file.read(len(content) + 1) == content:
                return
    if os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.write(descriptor, content)
    os.close(descriptor)
