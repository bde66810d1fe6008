"""The first `make run` of fresh clones on fresh machines: time, disk and packages.

`python -m benchmarks.first_run [TIMES]`, as root. A machine is a Debian with `make` and `python3` alone, in namespaces
of this host. Nothing is cached. Then its network is cut, and the same command runs again.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from tests.debian import bootstrap, kept, of_host
from tests.system.template import CHECKOUT, FOLDER

_PACKAGES = ("ca-certificates", "make", "python3")
_TRUST = "/etc/ssl/certs/ca-certificates.crt"
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "PIP_CERT": _TRUST,
    "SSL_CERT_FILE": _TRUST,
}
_INSIDE = """
ip link set lo up
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
cp /etc/resolv.conf etc/resolv.conf
pivot_root . mnt
umount -l /mnt
cd /root/ci-daemon
exec make run
"""


def main(times: int) -> None:
    """Measure so many first runs, each on a machine of its own."""
    bare = kept(FOLDER, "bare", [*_PACKAGES, *of_host()], partial(bootstrap, "bookworm", packages=_PACKAGES, hooks=[]))
    for number in range(1, times + 1):
        with tempfile.TemporaryDirectory(prefix="first-", dir=FOLDER) as folder:
            machine = Path(folder)
            subprocess.run(["cp", "-a", "--reflink=auto", f"{bare}/.", machine], check=True)
            clone = machine / "root/ci-daemon"
            subprocess.run(["git", "clone", "--quiet", f"file://{CHECKOUT}", clone], check=True)
            before, installed = _megabytes(machine), len(_packages(machine))
            cloned = _megabytes(clone)
            print(f"run {number} of {times}: a clone of {cloned} MB, {_megabytes(clone / '.git')} of them its history")
            _make_run(machine, "first")
            _print_disk(machine, clone, cloned, before, installed)
            _make_run(machine, "second, without a network", "--net")


def _make_run(machine: Path, name: str, *namespaces: str) -> None:
    unshare = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", *namespaces]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        [*unshare, "sh", "-ec", _INSIDE, "sh", machine],
        env=_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds, after = perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{name}: `make run` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {name}: {seconds:.1f} s, {cpu:.1f} s of CPU")


def _print_disk(machine: Path, clone: Path, cloned: int, before: int, installed: int) -> None:
    """Print what a first run has brought, and how many packages that are."""
    run = clone / ".run"
    below, image, environment = _megabytes(clone) - cloned, _megabytes(run / "images"), _megabytes(run / "venv")
    (tree,) = run.glob("images/*/tree")
    python = len(list(run.glob("venv/lib/python*/site-packages/*.dist-info")))
    print(f"  in the clone: {below} MB, of them the image {image} and the environment {environment}")
    print(f"  on the machine besides: {_megabytes(machine) - before - below} MB")
    print(
        f"  packages: {python} of Python, {len(_packages(tree))} in the image,"
        f" {len(_packages(machine)) - installed} on the machine"
    )


def _packages(root: Path) -> list[str]:
    status = (root / "var/lib/dpkg/status").read_text()
    return [line for line in status.splitlines() if line.startswith("Package: ")]


def _megabytes(folder: Path) -> int:
    """Return what a folder takes of the disk, in MB of 2^20 bytes; a file with several names counts once."""
    return int(subprocess.check_output(["du", "--summarize", "--block-size=1M", folder]).split()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3)
