"""An image with servers of Debian's packages, for services of jobs: a tar that is kept."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from actors.vms.images.debian import apt_options, apt_sources
from tests.debian import kept
from tests.programs import UNPACKED

_SUITE = "bookworm"
_PACKAGES = ("postgresql", "redis-server", "mariadb-server", "rabbitmq-server")
_REMOVE = """
cd "$1"
rm -rf usr/share/doc usr/share/man usr/share/locale usr/include usr/lib/python3* usr/lib/*/libLLVM*
rm -rf usr/lib/*/libz3* usr/lib/postgresql/*/lib/bitcode usr/bin/aria* usr/bin/myisam* usr/bin/mariadb-[b-z]*
"""
"""Remove files that no server needs to start: PostgreSQL does without its compiler, too."""

_MERGING = Path("/usr/share/mmdebstrap/hooks/merged-usr")
_TAR = "tree.tar"


def servers() -> Path:
    """Return the tar of a Debian with PostgreSQL, Redis, MariaDB and RabbitMQ."""
    recipe = [_SUITE, *_PACKAGES, _REMOVE, *apt_options()]
    return kept(UNPACKED, "servers", recipe, _bootstrap) / _TAR


def _bootstrap(folder: Path) -> None:
    """Make the tar as any user, in a folder that the ids of a user namespace can enter."""
    argv = ["mmdebstrap", "--quiet", "--mode=unshare", "--variant=minbase", "--format=tar"]
    argv += [f"--include={','.join(_PACKAGES)}", "--dpkgopt=force-unsafe-io", f"--customize-hook={_REMOVE}"]
    argv += [f"--aptopt={line}" for line in ['Acquire::Languages "none";', *apt_options()]]
    argv += [f"--hook-dir={_MERGING}"] if _MERGING.is_dir() else []
    with tempfile.TemporaryDirectory() as scratch, (folder / _TAR).open("wb") as tar:
        Path(scratch).chmod(0o1777)
        argv += [_SUITE, "-", *apt_sources("debian", _SUITE, "main")]
        subprocess.run(argv, check=True, stdout=tar, env={**os.environ, "TMPDIR": scratch})


if __name__ == "__main__":
    servers()
