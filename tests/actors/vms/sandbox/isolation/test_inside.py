"""A VM as its root user sees it: a machine of its own, with nothing of the host in it."""

from __future__ import annotations

import os
from pathlib import Path

from actors.vms import Connection, in_job
from actors.vms.launcher.shares import NETWORK_PROGRAM_ID
from storage import Shape, SystemClock
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Host

INIT_IS_CLOSED = """\
import ctypes, os
for entry in ("exe", "root", "cwd", "environ", "mem", "maps", "fd", "fd/3", "ns/net"):
    try:
        os.listdir("/proc/1/" + entry) if entry == "fd" else open("/proc/1/" + entry).read()
    except OSError as error:
        continue
    print(entry, "is open")
libc = ctypes.CDLL(None, use_errno=True)
print("traced" if libc.ptrace(16, 1, 0, 0) == 0 else "not traced")
"""

DESCRIPTORS = """\
import os
for pid in sorted(int(p) for p in os.listdir("/proc") if p.isdigit() and p != "1"):
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            print(os.readlink(f"/proc/{pid}/fd/{fd}"))
    except OSError:
        pass
"""

WATCHERS = """\
import ctypes, time
libc = ctypes.CDLL(None)
made = 0
while libc.inotify_init() >= 0:
    made += 1
print(made, flush=True)
time.sleep(60)
"""

LIBRARYS_OWN = 0b11 << 31  # signals 32 and 33 belong to the C library, and some programs ignore them for good


def test_the_usual_places_are_as_on_any_machine(boot: Boot) -> None:
    vm = boot()
    assert vm.says("stat -c '%a %U' /tmp /workspace /dev/shm /run") == "1777 root\n755 root\n1777 root\n755 root"
    assert vm.says("head -c 4 /dev/zero | wc -c; echo x > /dev/null; head -c 1 /dev/urandom | wc -c") == "4\n1"
    assert vm.says("echo into | cat /dev/stdin; echo out > /dev/stdout; ls -d /dev/fd/0") == "into\nout\n/dev/fd/0"
    assert vm.says("python3 -c 'import pty; pty.openpty()'; echo x > /dev/full 2>&1 || echo full") == "full"
    assert vm.says("hostname; cat /etc/hostname; getent hosts $(hostname) | cut -d ' ' -f 1") == "vm\nvm\n127.0.0.1"


def test_processes_start_with_clean_signals_mask_and_environment(boot: Boot) -> None:
    vm = boot()
    assert vm.says("umask") == "0022"
    signals = vm.says("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f 2").split()
    assert [int(mask, 16) & ~LIBRARYS_OWN for mask in signals] == [0, 0]
    assert "/" not in vm.says("env | grep -v -E '^(PATH|HOME|SHELL|MAIL|PWD|SSH_CLIENT|SSH_CONNECTION)=' || true")
    assert vm.says("cd /workspace; sh -c 'kill -SEGV $$'; ls") == ""


def test_only_processes_of_the_vm_are_seen(boot: Boot) -> None:
    vm = boot()
    assert set(vm.says("ps -e -o comm=; true").split()) == {"init", "command", "sh", "ps"}
    assert vm.says("tr '\\0' ' ' < /proc/1/cmdline") == "init"


def test_no_descriptor_mount_or_name_of_the_host_is_in_reach(host: Host, boot: Boot) -> None:
    vm = boot()
    assert vm.python(INIT_IS_CLOSED) == "not traced"
    kinds = {line.partition(":")[0].partition("/")[0] for line in vm.python(DESCRIPTORS).splitlines()}
    assert kinds <= {"socket", "pipe", "", "anon_inode"}
    for place in (str(host.folder), str(Path.cwd()), str(Path.home())):
        assert place not in vm.says("cat /proc/self/mountinfo /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert vm.says("ls -A /proc/self/root/..") == vm.says("ls -A /")


def test_root_of_the_vm_is_an_unprivileged_id_on_the_host(host: Host, boot: Boot) -> None:
    vm = boot()
    vm.says("touch /workspace/file; sleep 60 > /dev/null 2>&1 &")
    written = host.folder / "trees" / "disks" / vm.id / "upper" / "workspace" / "file"
    assert written.stat().st_uid == host.idmap.root_uid
    assert written.stat().st_uid not in {0, os.getuid()}
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in host.processes()} <= {0, host.idmap.root_uid}
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in host.processes()]
    real = {int(line.split()[1]) for status in statuses for line in status.splitlines() if line.startswith("Uid:")}
    assert real == {host.idmap.root_uid, host.idmap.root_uid + NETWORK_PROGRAM_ID}


def test_what_only_a_machine_s_root_may_do_is_refused(boot: Boot) -> None:
    vm = boot()
    script = (
        "import ctypes; libc = ctypes.CDLL(None); print(libc.reboot(0x1234567), libc.settimeofday(bytes(16), None))"
    )
    assert vm.python(script) == "-1 -1"
    assert vm.run("echo c > /proc/sysrq-trigger").exit_code != 0
    assert vm.run("mknod /dev/disk b 8 0").exit_code != 0
    assert vm.says("echo alive") == "alive"


def test_a_vm_does_not_use_up_kernel_limits_of_another(boot: Boot) -> None:
    greedy, other = boot(), boot()
    assert greedy.run("echo 1000000 > /proc/sys/user/max_inotify_instances").exit_code != 0
    greedy.run("cat > /tmp/watch.py", stdin=WATCHERS.encode())
    greedy.says("setsid -f python3 /tmp/watch.py > /tmp/made 2>&1; until [ -s /tmp/made ]; do sleep 0.01; done")
    assert int(greedy.says("cat /tmp/made")) > 0
    assert other.python("import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)") == "True"


def test_what_a_job_needs_root_for_works(boot: Boot) -> None:
    vm = boot()
    assert vm.says("useradd -m worker && su worker -c 'id -un'") == "worker"
    assert (
        vm.says("chown worker /workspace && su worker -c 'touch /workspace/mine' && stat -c %U /workspace/mine")
        == "worker"
    )
    assert vm.says("mount -t tmpfs tmpfs /mnt && df --output=fstype /mnt | tail -n 1") == "tmpfs"


def test_pid_1_survives_everything_that_root_of_the_vm_can_send(boot: Boot) -> None:
    vm = boot()
    vm.says("for signal in 1 2 3 6 9 11 13 15 17 19 20 25; do kill -$signal 1; done")
    vm.says("pkill -9 -x init; true")
    vm.run("kill -9 -1")
    assert vm.provider.alive(vm.id)
    assert vm.says("ps -o comm= -p 1") == "init"
    assert vm.outside("ps -o comm= -p 1") == "init"


def test_orphans_are_reaped(boot: Boot) -> None:
    vm = boot()
    vm.says("for i in 1 2 3 4 5; do (sh -c 'exit 3' &) ; done; (sleep 0.1; sleep 0.1) & wait")
    assert vm.says("ps -eo stat= | grep -c Z || true") == "0"


def test_daemons_left_behind_end_with_the_vm(host: Host, boot: Boot) -> None:
    vm = boot()
    mark = f"3600.{os.getpid()}"
    vm.says(f"setsid -f sleep {mark} > /dev/null 2>&1; nohup sleep {mark} > /dev/null 2>&1 &")

    def left() -> list[Path]:
        return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path)]

    assert left() != []
    vm.provider.destroy(vm.id)
    assert left() == []


def test_a_vm_outlives_its_connections(boot: Boot) -> None:
    vm = boot()
    vm.says("setsid -f sh -c 'sleep 0.2; echo later > /workspace/later'")
    vm.connection.close()
    with Connection(vm.provider.connect(vm.id), SystemClock()) as again:
        wait = "while [ ! -s /workspace/later ]; do sleep 0.05; done; cat /workspace/later"
        done = again.run(in_job(wait), timeout=60)
    assert done.stdout == b"later\n"


def test_nothing_that_a_vm_writes_reaches_its_image(host: Host, boot: Boot) -> None:
    root = host.images.path(IMAGE)
    before = sorted(path.name for path in root.iterdir()), (root / "etc/passwd").read_bytes()
    vm = boot()
    vm.says("echo mallory:x:0:0::/:/bin/sh >> /etc/passwd; rm -rf /usr/share; mkdir /new")
    assert (sorted(path.name for path in root.iterdir()), (root / "etc/passwd").read_bytes()) == before
    assert (root / "usr/share").is_dir()


def test_keys_of_a_vm_are_in_no_layer(host: Host, boot: Boot) -> None:
    vm = boot()
    vm.says("true")
    upper = host.folder / "trees" / "disks" / vm.id / "upper"
    written = [path.relative_to(upper) for path in upper.rglob("*") if path.is_file()]
    assert not [path for path in written if "key" in path.name or path.parts[0] in {"run", "root"}]
    assert (host.folder / "vms" / vm.id / "record").stat().st_mode & 0o077 == 0
    assert host.folder.stat().st_mode & 0o077 == 0


def test_memory_files_are_bounded_by_the_shape(boot: Boot) -> None:
    vm = boot(shape=Shape(memory_gb=1))
    assert vm.says("df --output=size -BM /run /dev/shm | tail -n 2 | tr -d ' '") == "256M\n512M"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
