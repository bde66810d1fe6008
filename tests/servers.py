"""A tar of servers and tools of Debian, for services of jobs and for examples, which is kept."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from actors.vms import ImageStore
from actors.vms.host import IdMap
from actors.vms.images.debian import apt_options, apt_sources
from actors.vms.images.image import TREE, Image, ImageProgram, folder_of
from tests.debian import kept
from tests.programs import UNPACKED

_SUITE = "bookworm"
_SERVERS = ("postgresql", "redis-server", "mariadb-server", "rabbitmq-server", "docker-registry")
_TOOLS = (
    "python3-pip",
    "python3-django",
    "python3-django-redis",
    "python3-psycopg2",
    "podman",
    "crun",
    "busybox-static",
)
_PACKAGES = (*_SERVERS, *_TOOLS)
_REMOVE = """
cd "$1"
rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/i18n usr/include usr/lib/*/libLLVM* usr/lib/*/libz3*
rm -rf usr/lib/cni usr/lib/postgresql/*/lib/bitcode usr/bin/aria* usr/bin/myisam* usr/bin/mariadb-[b-z]*
rm -rf usr/lib/python3/dist-packages/django/*/*/locale usr/lib/python3/dist-packages/django/conf/locale/[a-df-z]*
rm -rf var/lib/postgresql/*
rm -f usr/lib/python3*/EXTERNALLY-MANAGED
"""
"""Remove what nothing needs here, such as PostgreSQL's compiler, and let pip install."""

_MERGING = Path("/usr/share/mmdebstrap/hooks/merged-usr")
_TAR = "tree.tar"


def servers() -> Path:
    """Return the tar of a Debian with these servers and tools."""
    recipe = [_SUITE, *_PACKAGES, _REMOVE, *apt_options()]
    return kept(UNPACKED, "servers", recipe, _bootstrap) / _TAR


_PGDATA = "/var/lib/postgresql/data"
_POSTGRES = f"""
set -e
if [ ! -e {_PGDATA}/PG_VERSION ]; then
    mkdir -p {_PGDATA}
    chown postgres {_PGDATA}
    echo "$POSTGRES_PASSWORD" >/tmp/password
    setpriv --reuid=postgres --regid=postgres --init-groups \
        initdb --no-sync --auth-host=md5 --pwfile=/tmp/password --pgdata={_PGDATA}
    [ -z "$POSTGRES_DB" ] || echo "CREATE DATABASE $POSTGRES_DB" |
        setpriv --reuid=postgres --regid=postgres --init-groups postgres --single -D {_PGDATA} postgres
    echo "host all all all md5" >>{_PGDATA}/pg_hba.conf
fi
exec setpriv --reuid=postgres --regid=postgres --init-groups \
    postgres -D {_PGDATA} -c listen_addresses='*' -c unix_socket_directories=/tmp
"""
_REGISTRY = {
    "version": "0.1",
    "storage": {"filesystem": {"rootdirectory": "/var/lib/registry"}},
    "http": {"addr": ":5000", "secret": "none"},
}
_SERVE = f"echo '{json.dumps(_REGISTRY)}' >/tmp/config.yml; exec docker-registry serve /tmp/config.yml"
_PROGRAMS = {
    "postgres:16": ("sh", "-c", _POSTGRES),
    "redis:7": ("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", "/tmp"),
    "registry:2": ("sh", "-c", _SERVE),
    "python:3.12": (),
    "debian:12": (),
}
BASE = "base:1"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin"


def add_usual_images(folder: Path) -> None:
    """Add this Debian to an image store under names of registries' images, with what these start.

    Its image ``debian:12``, without which there are no VMs, is `BASE` then.
    """
    base = folder / folder_of(BASE)
    (folder / folder_of("debian:12")).rename(base)
    replace(Image.read(base), name=BASE).write(base)
    with servers().open("rb") as tar:
        made = ImageStore(folder, IdMap.of_caller()).import_("servers:1", tar)
    for name, argv in _PROGRAMS.items():
        place = folder / folder_of(name)
        place.mkdir()
        (place / TREE).symlink_to(folder / folder_of(made.name) / TREE)
        replace(made, name=name, environment={"PATH": _PATH}, program=ImageProgram(command=argv)).write(place)


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
