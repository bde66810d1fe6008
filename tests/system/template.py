"""Templates for the machines: a Debian with systemd, and the wheels that an installation needs.

Both are made once, below ``.run/machines``, and made again when their recipe has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.images.host_apt import apt_options, apt_sources, local_certificates

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHECKOUT", "FOLDER", "debian", "wheels"]

CHECKOUT = Path(__file__).parents[2]
FOLDER = CHECKOUT / ".run/machines"

_PACKAGES = (
    "adduser", "ca-certificates", "curl", "dbus", "debian-archive-keyring", "git", "iproute2", "kmod", "libpam-systemd",
    "mmdebstrap", "openssh-client", "procps", "python3", "python3-venv", "slirp4netns", "sudo", "systemd",
    "systemd-sysv", "uidmap",
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
    recipe = [*_PACKAGES, *_OF_REAL_HARDWARE, *apt_options(), *local_certificates()]
    return _made(suite, recipe, partial(_bootstrap, suite))


def wheels() -> Path:
    """Return a folder with the wheels of this checkout's requirements; machines need no package index."""
    setup = ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    recipe = [setup["options"]["install_requires"], (CHECKOUT / "pyproject.toml").read_text()]
    return _made("wheels", recipe, _collect)


def _made(name: str, recipe: list[str], make: Callable[[Path], None]) -> Path:
    stamp = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    made = FOLDER / f"{name}-{stamp}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = FOLDER / f"{name}.unfinished"
            for old in (unfinished, *FOLDER.glob(f"{name}-*")):
                shutil.rmtree(old, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(made)
    return made


def _bootstrap(suite: str, root: Path) -> None:
    certificates = root.with_name("certificates")
    shutil.rmtree(certificates, ignore_errors=True)
    certificates.mkdir()
    for number, text in enumerate(local_certificates()):
        (certificates / f"host-{number}.crt").write_text(text + "\n", encoding="ascii")
    hooks = [
        f"sync-in {certificates} /usr/local/share/ca-certificates",
        'chroot "$1" update-ca-certificates',
        f'chroot "$1" systemctl mask {" ".join(_OF_REAL_HARDWARE)}',
        'chroot "$1" systemctl set-default multi-user.target',
        'rm -f "$1/etc/machine-id" "$1/etc/resolv.conf"; : >"$1/etc/machine-id"',
        'echo "nameserver 10.0.2.3" >"$1/etc/resolv.conf"; echo "127.0.0.1 localhost machine" >"$1/etc/hosts"',
        'printf "[global]\\nno-index = true\\nfind-links = /srv/wheels\\n" >"$1/etc/pip.conf"',
        'mkdir -p "$1/srv/wheels" "$1/etc/systemd/journald.conf.d"',
        'printf "[Journal]\\nStorage=persistent\\n" >"$1/etc/systemd/journald.conf.d/tests.conf"',
    ]
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", f"--include={','.join(_PACKAGES)}"]
    argv += [f"--aptopt={line}" for line in ['Acquire::Languages "none";', *apt_options()]]
    argv += [
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
    ]
    argv += ["--skip=cleanup/apt/lists", *(f"--customize-hook={hook}" for hook in hooks), suite, str(root)]
    subprocess.run([*argv, *apt_sources("debian", suite, "main")], check=True)
    shutil.rmtree(certificates)


def _collect(folder: Path) -> None:
    requires = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["build-system"]["requires"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "-w", folder, CHECKOUT, *requires, "wheel"], check=True)
    for own in folder.glob("ci_daemon-*"):
        own.unlink()
