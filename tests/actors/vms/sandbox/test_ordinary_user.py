"""Sandboxes of an ordinary user, in a folder that no other user can enter."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko

from actors.vms import ImageStore
from actors.vms.host import IdMap
from tests.actors.vms.sandbox.conftest import IMAGE
from tests.waiting import until

CHECKOUT = Path(__file__).parents[4]

PROGRAM = """\
import os, sys
from pathlib import Path
from actors.vms import Connection, ImageStore, SandboxProvider, ServiceSpec, VmSpec, in_job, start_services
from actors.vms.host import IdMap, run_mapped
from storage import SystemClock

folder, idmap = Path(sys.argv[1]), IdMap.of_caller()
assert os.geteuid() != 0 and folder.stat().st_mode & 0o077 == 0
images = ImageStore(folder / "images", idmap)
images.import_("debian:12", sys.stdin.buffer)
provider = SandboxProvider(folder / "sandbox", images, idmap, SystemClock())

def says(vm, script):
    with Connection(provider.connect(vm), SystemClock()) as connection:
        done = connection.run(in_job(f"cd /workspace; {script}"), timeout=20)
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()

try:
    provider.create(VmSpec("parent", "debian:12"))
    assert says("parent", "id -u; echo x > /workspace/x; ls /sys/class/net") == "0\\neth0\\nlo"
    hold = "exec 9>gone; rm gone; head -c 20M /dev/zero >&9; touch held; exec sleep 60"
    says("parent", f"setsid -f sh -c '{hold}' >/dev/null 2>&1; until [ -e held ]; do sleep 0.01; done")
    assert 20 << 20 < provider.disk("parent").bytes < 21 << 20
    hold = "import mmap; f = open('m', 'w+b'); f.write(bytes(9 << 20)); m = mmap.mmap(f.fileno(), 9 << 20)"
    hold += "; import os, time; os.closerange(3, 64); os.unlink('m'); open('mapped', 'w'); time.sleep(60)"
    says("parent", f"setsid -f python3 -c \\"{hold}\\" >/dev/null 2>&1; until [ -e mapped ]; do sleep 0.01; done")
    disk = provider.disk("parent")
    assert 29 << 20 < disk.bytes < 30 << 20 and disk.unmeasured == 1, disk
    provider.snapshot("parent", "snapshot")
    provider.create(VmSpec("child", "debian:12", "snapshot", network=False))
    assert says("child", "cat /workspace/x; ls /sys/class/net") == "x\\nlo"
    provider.create(VmSpec("beside", "debian:12", network=False, services={"db": "debian:12"}))
    with Connection(provider.connect("beside"), SystemClock()) as connection:
        listen = "$s = IO::Socket::INET->new(LocalPort => 9, Listen => 1) or die; sleep 60"
        argv = ("perl", "-MIO::Socket", "-e", listen)
        start_services(connection, [ServiceSpec("db", argv, {"PATH": "/usr/bin:/bin"}, ready_port=9)])
finally:
    for vm in provider.list():
        provider.destroy(vm)
provider.remove_snapshot("snapshot")
assert list(provider.list()) == list(provider.snapshots()) == []
run_mapped(["rm", "-rf", "images", "sandbox"], idmap=idmap.with_caller(), cwd=folder)
print("done")
"""


@contextmanager
def packed(store: ImageStore, idmap: IdMap) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that writes the default image as a tar."""
    pack = idmap.command(["tar", "--create", "--numeric-owner", "."])
    with subprocess.Popen(pack, cwd=store.path(IMAGE), stdout=subprocess.PIPE) as tar:
        yield tar


def remove_user(name: str) -> bool:
    """Remove a user, unless a process of the user is still ending."""
    return subprocess.run(["userdel", "--remove", name], check=False, stderr=subprocess.DEVNULL).returncode == 0


@contextmanager
def a_user() -> Iterator[Path]:
    """Make a user with subordinate ids; yield its home, which only this user can enter."""
    name = f"ci-test-{os.getpid()}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True)
    try:
        home = Path(pwd.getpwnam(name).pw_dir)
        home.chmod(0o700)
        yield home
    finally:
        until(lambda: remove_user(name), "the end of the user's last process")


def as_owner_of(home: Path) -> list[str]:
    """Return the argv that runs PROGRAM as the owner of a home.

    The python and the checkout, which may be readable only by root, are mounted in the home for that program alone.
    """
    seen = {
        home / "python": sys.base_prefix,
        home / "site": Path(paramiko.__file__).parents[1],
        home / "repo": CHECKOUT,
    }
    mounts = "".join(f"mkdir {at}; mount --bind {shlex.quote(str(real))} {at}; " for at, real in seen.items())
    python = home / "python" / Path(sys.executable).resolve().relative_to(sys.base_prefix)
    owner = home.stat()
    ids = [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
    # If python is a shared library, the loader would take the system's, which may be older.
    libraries = f"LD_LIBRARY_PATH={home}/python/lib"
    clean = ["env", "-i", libraries, f"PYTHONPATH={home}/repo:{home}/site", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    command = ["setpriv", *ids, *clean, str(python), "-c", PROGRAM, str(home)]
    return ["unshare", "--mount", "sh", "-ec", f"{mounts} exec {shlex.join(command)}"]


def test_a_vm_is_made_forked_and_freed_without_privileges(
    image_store: ImageStore, idmap: IdMap, tmp_path: Path
) -> None:
    with packed(image_store, idmap) as tar:
        if os.geteuid() == 0:
            with a_user() as home:
                done = subprocess.run(as_owner_of(home), stdin=tar.stdout, capture_output=True, check=False, text=True)
        else:
            tmp_path.chmod(0o700)
            argv = [sys.executable, "-c", PROGRAM, str(tmp_path)]
            done = subprocess.run(argv, stdin=tar.stdout, capture_output=True, check=False, text=True, cwd=CHECKOUT)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
