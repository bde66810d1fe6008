"""Templates for the machines: a Debian with systemd, and the wheels that an installation needs.

Both are made once, below ``.run/machines``, and made again when their recipe has changed.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.debian import bootstrap, kept, of_host

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / ".run/machines"
_LOCKS = [CHECKOUT / "requirements" / name for name in ("run.txt", "build.txt")]

_PACKAGES = (
    "adduser", "ca-certificates", "curl", "dbus", "debian-archive-keyring", "git", "gpg", "iproute2", "kmod",
    "libpam-systemd", "mmdebstrap", "openssh-client", "procps", "python3", "python3-venv", "skopeo", "slirp4netns",
    "sudo", "systemd", "systemd-sysv", "uidmap", "umoci",
)  # fmt: skip
_OF_REAL_HARDWARE = (
    "getty@tty1.service", "modprobe@.service", "systemd-modules-load.service", "systemd-random-seed.service",
    "systemd-sysctl.service", "systemd-timesyncd.service", "systemd-tmpfiles-setup-dev.service",
    "systemd-udevd.service", "systemd-udev-trigger.service", "sys-kernel-config.mount", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "dev-hugepages.mount",
)  # fmt: skip
"""Units that would affect the host, whose kernel and devices the machine shares."""


def debian(suite: str) -> Path:
    """Return the root folder of a release of Debian that systemd can boot."""
    recipe = [*_PACKAGES, *_OF_REAL_HARDWARE, *of_host()]
    return kept(FOLDER, suite, recipe, partial(_bootstrap, suite))


def wheels() -> Path:
    """Return a folder with the wheels that this checkout's locks name; machines need no package index."""
    return kept(FOLDER, "wheels", [each.read_text(encoding="utf-8") for each in _LOCKS], _collect)


def _bootstrap(suite: str, root: Path) -> None:
    hooks = [
        f'chroot "$1" systemctl mask {" ".join(_OF_REAL_HARDWARE)}',
        'chroot "$1" systemctl set-default multi-user.target',
        'echo "nameserver 10.0.2.3" >"$1/etc/resolv.conf"',
        'printf "[global]\\nno-index = true\\nfind-links = /srv/wheels\\n" >"$1/etc/pip.conf"',
        'mkdir -p "$1/srv/wheels" "$1/etc/systemd/journald.conf.d"',
        'printf "[Journal]\\nStorage=persistent\\n" >"$1/etc/systemd/journald.conf.d/tests.conf"',
    ]
    bootstrap(suite, root, _PACKAGES, hooks)


def _collect(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", str(folder)]
    for lock in _LOCKS:
        subprocess.run([*pip, "--requirement", str(lock)], check=True)
