"""An image with build tools, for tests that compile in VMs; made once for an image store."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from actors.vms import ImageStore
from actors.vms.host import IdMap
from actors.vms.images.debian import apt_options, apt_sources
from actors.vms.images.tree import Tree

TOOLCHAIN = "test-toolchain"
_PACKAGES = "bash,cmake,gcc,libc6-dev,make,mount,ninja-build,openssh-server,python3-minimal"
_SUITE = "bookworm"


def build_toolchain(images: Path) -> None:
    """Make the image if the store lacks it, which takes half a minute."""
    idmap = IdMap.of_caller()
    store = ImageStore(images, idmap)
    if TOOLCHAIN in store.names():
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as temporary:
        Path(temporary).chmod(0o755)
        scratch = Path(temporary, "scratch")
        scratch.mkdir()
        tar = Path(temporary, "tree.tar")
        argv = [
            "mmdebstrap",
            "--mode=unshare",
            "--variant=minbase",
            f"--include={_PACKAGES}",
            "--dpkgopt=force-unsafe-io",
        ]
        argv += [f"--aptopt={line}" for line in ('Acquire::Languages "none";', *apt_options())]
        argv += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]
        argv += ['--customize-hook=mkdir "$1/workspace"', _SUITE, str(tar), *apt_sources("debian", _SUITE, "main")]
        try:
            subprocess.run(argv, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(scratch)}, check=True)
            with tar.open("rb") as file:
                store.import_(TOOLCHAIN, file, "made for tests")
        finally:
            Tree(scratch, idmap).remove()
