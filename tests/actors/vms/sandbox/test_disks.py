"""Disks of layers: a fork sees its ancestors' files and no sibling's, however many ancestors it has."""

from __future__ import annotations

import contextlib
import marshal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors.vms import ImageStore, SandboxProvider, SnapshotNotFound, VmError, VmLost, VmSpec
from actors.vms.host import IdMap, run_mapped
from storage import SystemClock
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Guest, Host
from tests.processes import ended

Snapshot = Callable[[Guest], str]


@pytest.fixture
def snapshot(host: Host) -> Snapshot:
    """Snapshot a VM's disk, and destroy the VM."""

    def take(vm: Guest) -> str:
        name = host.name()
        vm.provider.snapshot(vm.id, name)
        vm.provider.destroy(vm.id)
        return name

    return take


def test_a_removal_that_was_cut_short_is_finished(host: Host, idmap: IdMap) -> None:
    provider, name = host.provider(), host.name()
    run_mapped(["mkdir", "-p", f"trash/snapshots/{name}/upper"], idmap=idmap, cwd=host.folder / "trees")
    assert list(provider.snapshots()) == [name]
    provider.remove_snapshot(name)
    assert list(provider.snapshots()) == []


def test_a_removal_by_several_ends_for_each_when_all_is_gone(
    image_store: ImageStore, idmap: IdMap, memory_disk: Path
) -> None:
    """It is in memory: ext4 is ten times as slow at making files where others have just been removed."""
    folder = memory_disk / "sandbox"
    made = "mkdir -p snapshots/taken/upper && seq -f snapshots/taken/upper/%g 5000 | xargs touch"

    def remove(_: int) -> list[str]:
        provider.remove_snapshot("taken")
        return list(provider.snapshots())

    try:
        with (
            contextlib.closing(SandboxProvider(folder, image_store, idmap, SystemClock())) as provider,
            ThreadPoolExecutor(4) as threads,
        ):
            for _ in range(5):
                run_mapped(["sh", "-c", made], idmap=idmap, cwd=folder / "trees")
                assert list(threads.map(remove, range(4))) == [[]] * 4
    finally:
        run_mapped(["rm", "-r", folder.name], idmap=idmap.with_caller(), cwd=memory_disk)


def test_a_snapshot_torn_by_a_host_crash_is_not_found(host: Host, boot: Boot, snapshot: Snapshot) -> None:
    """It does not keep other snapshots."""
    torn, other = snapshot(boot()), snapshot(boot())
    empty = ["sh", "-c", ': > "$1"', "sh", f"snapshots/{torn}/chain"]
    run_mapped(empty, idmap=host.idmap, cwd=host.folder / "trees")
    with pytest.raises(SnapshotNotFound):
        boot(snapshot=torn)
    for name in (other, torn):
        host.provider().remove_snapshot(name)
    assert list(host.provider().snapshots()) == []


def test_a_snapshot_keeps_its_image_if_the_name_gets_another(
    host: Host, boot: Boot, snapshot: Snapshot, tmp_path: Path, idmap: IdMap
) -> None:
    class Replaced:
        def path(self, _: str) -> Path:
            return tmp_path / "replaced"

    taken = snapshot(boot())
    run_mapped(["mkdir", "replaced"], idmap=idmap.with_caller(), cwd=tmp_path)
    provider = SandboxProvider(host.folder, Replaced(), idmap, SystemClock())
    try:
        assert host.provider().snapshot_image(taken) == IMAGE
        assert provider.snapshot_image(taken) is None
        assert provider.snapshot_image("nowhere") is None
        with pytest.raises(SnapshotNotFound, match="replaced"):
            provider.create(VmSpec(host.name(), IMAGE, taken, network=False))
    finally:
        run_mapped(["rm", "-r", "replaced"], idmap=idmap.with_caller(), cwd=tmp_path)


def test_a_vms_disk_is_measured(boot: Boot) -> None:
    vm = boot()
    assert vm.provider.disk(vm.id).bytes < 1 << 20
    vm.says("head -c 50M /dev/zero > /workspace/data")
    assert 50 << 20 <= vm.provider.disk(vm.id).bytes < 51 << 20


def test_open_files_without_a_name_count_while_open(boot: Boot) -> None:
    vm = boot()
    hold = "exec 9>/workspace/gone 8>/dev/shm/gone; rm /workspace/gone /dev/shm/gone; head -c 50M /dev/zero >&9"
    vm.says(f"setsid -f sh -c '{hold}; head -c 20M /dev/zero >&8; echo done >/run/done; exec sleep 60' >/dev/null 2>&1")
    vm.says("until [ -s /run/done ]; do sleep 0.01; done")
    assert 50 << 20 <= vm.provider.disk(vm.id).bytes < 51 << 20
    vm.says("pkill -x sleep; while pgrep -x sleep; do :; done")
    assert vm.provider.disk(vm.id).bytes < 1 << 20


HOLDS = {
    "mapped": "held = mmap.mmap(file.fileno(), 50 << 20); os.closerange(3, 64)",
    "open in one thread alone": """
def hold():
    ctypes.CDLL(None).unshare(0x400)
    own = os.dup(file.fileno())
    opened.set()
    time.sleep(60)
opened = threading.Event()
threading.Thread(target=hold, daemon=True).start()
opened.wait()
file.close()""",
}

HOLD = """\
import array, ctypes, mmap, os, socket, threading, time
file = open("/workspace/gone", "w+b")
os.unlink("/workspace/gone")
for _ in range(50):
    file.write(bytes(1 << 20))
file.flush()
{}
open("/run/done", "w").write("done")
time.sleep(60)
"""


def hold(vm: Guest, how: str) -> None:
    """Hold 50 MiB of unnamed files in the VM."""
    vm.run("cat > /run/hold.py", stdin=HOLD.format(how).encode())
    vm.says("setsid -f python3 /run/hold.py >/run/output 2>&1; until [ -s /run/done ]; do sleep 0.01; done")


@pytest.mark.parametrize("how", HOLDS)
def test_files_without_a_name_count_however_they_are_held(boot: Boot, how: str) -> None:
    vm = boot()
    hold(vm, HOLDS[how])
    assert 50 << 20 <= vm.provider.disk(vm.id).bytes < 51 << 20


def test_files_on_their_way_over_a_socket_are_known_to_be_there(boot: Boot) -> None:
    vm = boot()
    assert vm.provider.disk(vm.id).unmeasured == 0
    sent = "[(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file.fileno()]))]"
    hold(vm, f"a, b = socket.socketpair()\na.sendmsg([b'x'], {sent})\nfile.close()")
    assert vm.provider.disk(vm.id).unmeasured == 1


HOLD_MANY = """\
import sys, tempfile
held = [tempfile.TemporaryFile(dir=sys.argv[1], buffering=0) for _ in range(100)]
for each in held:
    each.write(bytes(4096))
print("held", flush=True)
sys.stdin.read()
"""
MEASURE = """\
import sys
from actors.vms.launcher import disk_files
disk_files._MAX_CHECKS = int(sys.argv[1])
sys.exit(disk_files.measure_unlinked())
"""


def test_a_measurement_ends_however_many_files_are_open(tmp_path: Path) -> None:
    """All that it has not seen counts as one file that may take more."""
    namespace = ("unshare", "--user", "--map-root-user")
    holding = [*namespace, sys.executable, "-c", HOLD_MANY, str(tmp_path)]
    with ended(subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        spec = marshal.dumps({"process": holder.pid, "place": str(tmp_path), "groups": []})

        def measured(checks: int) -> list[int]:
            argv = [sys.executable, "-c", MEASURE, str(checks)]
            return [
                int(each) for each in subprocess.run(argv, input=spec, capture_output=True, check=True).stdout.split()
            ]

        whole, in_doubt = measured(1_000_000)
        assert (whole >= 100 * 4096, in_doubt) == (True, 0)
        part, in_doubt = measured(50)
        assert (0 < part <= whole / 2, in_doubt) == (True, 1)


def test_empty_files_count_as_the_inodes_that_they_take(boot: Boot) -> None:
    vm = boot()
    vm.says("mkdir /workspace/many; cd /workspace/many; seq 3000 | xargs touch")
    assert vm.provider.disk(vm.id).bytes >= 3000 * 16384


@pytest.mark.parametrize("place", ["proc", "sys", "dev", "run", "tmp", "workspace", "etc"])
def test_a_link_in_a_snapshot_leads_nowhere_outside(
    host: Host, boot: Boot, snapshot: Snapshot, tmp_path: Path, place: str
) -> None:
    vm = boot()
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    vm.run("rm -rf /workspace /tmp")
    vm.provider.snapshot(vm.id, taken := host.name())
    script = 'rm -rf "$1" && ln -s "$2" "$1"'
    trees = host.folder / "trees"
    upper = f"snapshots/{taken}/upper"
    run_mapped(["sh", "-c", script, "sh", f"{upper}/{place}", str(outside)], idmap=host.idmap, cwd=trees)
    with contextlib.suppress(VmError):
        boot(snapshot=taken)
    assert list(outside.iterdir()) == []


DEEP = 'python3 -c \'import os\nfor _ in range(1200): os.mkdir("d"); os.chdir("d")\''
MARKED = 'python3 -c \'import os; [os.setxattr("keep", "user." + name, b"1") for name in "ab"]\''
UNMARKED = 'python3 -c \'import os; os.removexattr("keep", "user.b")\''
LAYERS = (
    "cd /workspace; mkdir -p keep/sub gone/sub; echo 1 > keep/a; echo 1 > keep/sub/b; echo 1 > gone/c; ln keep/a hard",
    f"cd /workspace; {MARKED}; {DEEP}",
    "cd /workspace; rm -r gone; echo 2 > keep/sub/b; ln -s keep link; rm -r /usr/share/doc; chmod 700 keep",
    f"cd /workspace; {UNMARKED}",
    "cd /workspace; mkdir gone; echo 3 > gone/new; rm link; mkdir link; echo 3 > link/inside; touch -d @1 keep",
    "cd /workspace; rm -r keep/sub; echo 4 > keep/sub; mkdir /usr/share/doc; echo 4 > /usr/share/doc/only",
    "cd /workspace; rm keep/sub; mkdir keep/sub; echo 5 > keep/sub/z; rm -r gone; mkdir gone; echo 5 > gone/again",
    "cd /workspace; rm -r /usr/share/doc; chown daemon:daemon keep; echo 6 > gone/more",
    "cd /workspace; rm -r link; mkfifo link; rm /etc/issue; mkdir /etc/issue; rm -r d; mkdir -p d/d",
)
LOOK = """\
import os, stat
for top in ("/workspace", "/usr/share/doc", "/etc/issue", "/usr/share/doc-base"):
    for folder, _, files in os.walk(top):
        for path in [folder, *(os.path.join(folder, file) for file in files)]:
            found = os.lstat(path)
            content = open(path).read() if stat.S_ISREG(found.st_mode) else ""
            marks = [] if os.path.islink(path) else sorted(os.listxattr(path))
            print(path, oct(found.st_mode), found.st_uid, found.st_gid, int(found.st_mtime) == 1, content[:20], marks)
"""


def test_merged_layers_have_the_content_of_all_layers(host: Host, boot: Boot, snapshot: Snapshot) -> None:
    looks = []
    for max_layers in (100, 2):
        provider = host.provider(max_layers=max_layers)
        taken = None
        for script in LAYERS:
            vm = boot(snapshot=taken, provider=provider)
            vm.says(script)
            taken = snapshot(vm)
        looks.append(sorted(boot(snapshot=taken, provider=provider).python(LOOK).splitlines()))
    assert looks[0] == looks[1]
    assert len(looks[0]) > 5


def test_150_ancestors_are_no_obstacle(host: Host, boot: Boot) -> None:
    provider, taken = host.provider(), None
    for generation in range(150):
        if generation % 10 == 0:
            vm = boot(snapshot=taken, provider=provider)
            vm.says(f"echo {generation} > /workspace/{generation}; rm -f /workspace/{generation - 20}")
            vm.connection.close()
        else:
            vm = VmSpec(host.name(), IMAGE, taken, network=False)
            provider.create(vm)
        name = host.name()
        provider.snapshot(vm.id, name)
        provider.destroy(vm.id)
        taken = name
    assert boot(snapshot=taken).says("ls /workspace; cat /workspace/*") == "130\n140\n130\n140"


def test_a_disk_that_ended_with_its_host_is_not_kept(host: Host, boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut may have taken some of what the VM wrote."""
    vm, name = boot(), host.name()
    monkeypatch.setattr("actors.vms.host.vm_folder.boot_id", lambda: "another boot")
    with pytest.raises(VmLost, match="ended with its host"):
        vm.provider.snapshot(vm.id, name)
    assert name not in host.provider().snapshots()
