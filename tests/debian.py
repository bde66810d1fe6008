"""Trees of Debian and Ubuntu for machines in tests, made once for a recipe and kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.images.debian import apt_options, apt_sources, local_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_OF_UBUNTU = {"noble"}


def kept(folder: Path, name: str, recipe: list[str], make: Callable[[Path], None]) -> Path:
    """Return the tree ``name`` in ``folder``, and make it first unless one of this recipe is there."""
    stamp = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
    made = folder / f"{name}-{stamp}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            unfinished = folder / f"{name}.unfinished"
            for old in (unfinished, *folder.glob(f"{name}-*")):
                shutil.rmtree(old, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(made)
    return made


def of_host() -> list[str]:
    """Return what a tree takes from this host: its settings of apt and its own certificate authorities."""
    return [*apt_options(), *local_certificates()]


def bootstrap(suite: str, root: Path, packages: Iterable[str], hooks: Iterable[str]) -> None:
    """Make a release with these packages from its archive; ``hooks`` are shell lines of mmdebstrap."""
    vendor, components = ("ubuntu", "main,universe") if suite in _OF_UBUNTU else ("debian", "main")
    with tempfile.TemporaryDirectory() as certificates:
        for number, text in enumerate(local_certificates()):
            Path(certificates, f"host-{number}.crt").write_text(text + "\n", encoding="ascii")
        hooks = [
            f"sync-in {certificates} /usr/local/share/ca-certificates",
            'chroot "$1" update-ca-certificates',
            'rm -f "$1/etc/machine-id" "$1/etc/resolv.conf"; : >"$1/etc/machine-id"',
            'echo "127.0.0.1 localhost machine" >"$1/etc/hosts"',
            *hooks,
        ]
        argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
        argv += [f"--components={components}"]
        argv += [f"--include={','.join(packages)}"]
        argv += [f"--aptopt={line}" for line in ['Acquire::Languages "none";', *apt_options()]]
        argv += [
            "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*",
        ]
        argv += ["--skip=cleanup/apt/lists", *(f"--customize-hook={hook}" for hook in hooks), suite, str(root)]
        subprocess.run([*argv, *apt_sources(vendor, suite, components.replace(",", " "))], check=True)
