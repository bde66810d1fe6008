"""Attacks of a hostile job on the kernel that it shares with the host and with other tenants."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import SandboxSettings
from actors.vms.launcher import broker
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.actors.vms.sandbox.isolation.attack import CALLS

SYS_ADD_KEY, SYS_KEYCTL = 248, 250
KEYCTL_INVALIDATE = 21
SESSION, USER, USER_SESSION = -3, -4, -5
SYS_RESOURCE = 24

WITHOUT_KEYRINGS = f"""\
import ctypes, sys
sys.path[:0] = [{str(Path(broker.__file__).parent.parent)!r}]
from launcher import main, syscall_filter
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges
syscall_filter.prepare()
syscall_filter.install(user_namespaces=True)
sys.exit(main.main())
"""

KEYS = """\
description, kind = low(b"from-a-job\\0"), low(b"user\\0")
results = {}
for place in (-1, -2, -3, -4, -5):
    for name, call, add, request, control in (
        ("native", native, 248, 249, 250), ("x32", x32, 248, 249, 250), ("compat", compat, 286, 287, 288)
    ):
        results[name, "add", place] = call(add, kind, description, kind, 4, place & 0xFFFFFFFF)
        results[name, "request", place] = call(request, kind, description, 0, place & 0xFFFFFFFF)
        for operation in range(33):
            results[name, operation, place] = call(control, operation, place & 0xFFFFFFFF, 0, 0)
for serial in STARTERS:
    for operation in (6, 11):  # describe, read
        results["starter", operation, serial] = native(250, operation, serial, low(bytes(64)), 64)
print(json.dumps(sorted({(key[0], named(done)) for key, done in results.items()})))
print(open("/proc/keys").read() + open("/proc/key-users").read())
"""

FAMILIES = """\
def made(socket):
    if socket >= 0:
        os.close(socket)
    return named(socket)

native_call, compat_call = {"x86_64": (41, 359)}[platform.machine()]
ways = {
    "native": lambda family: native(native_call, family, kind, 0),
    "x32": lambda family: x32(native_call, family, kind, 0),
    "compat": lambda family: compat(compat_call, family, kind, 0),
    "high bits": lambda family: native(native_call, family | 1 << 32, kind, 0),
    "socketcall": lambda family: compat(102, 1, low(b"".join(n.to_bytes(4, "little") for n in (family, kind, 0)))),
    "native pair": lambda family: native(53, family, kind, 0, low(bytes(8))),
    "compat pair": lambda family: compat(360, family, kind, 0, low(bytes(8))),
    "socketcall pair": lambda family: compat(102, 8, low(
        b"".join(n.to_bytes(4, "little") for n in (family, kind, 0, low(bytes(8))))
    )),
}
found = {}
for name, way in ways.items():
    for family in range(64):
        results = set()
        for kind in (1, 2, 3, 5):
            results.add(made(way(family)))
        found.setdefault(name, {})[family] = sorted(results)
print(json.dumps(found))
"""

NAMESPACES = """\
import struct
NEWUSER, NEWNET = 0x10000000, 0x40000000
def child(done):
    if done == 0:
        os._exit(0)
    if done > 0:
        os.waitpid(done, 0)
    return named(done)
found = {
    "unshare": named(native(272, NEWUSER)),
    "unshare, compat": named(compat(310, NEWUSER)),
    "unshare, x32": named(x32(272, NEWUSER)),
    "unshare with others": named(native(272, NEWUSER | NEWNET)),
    "clone": child(native(56, NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)),
    "clone, compat": child(compat(120, NEWUSER | signal.SIGCHLD)),
    "clone, high bits": child(native(56, NEWUSER | signal.SIGCHLD | 1 << 32, 0, 0, 0, 0)),
    "clone3": child(native(435, low(struct.pack("8Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)), 64)),
    "clone3, compat": child(compat(435, low(struct.pack("8Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)), 64)),
    "setns": named(native(308, os.open("/proc/self/ns/user", os.O_RDONLY), NEWUSER)),
}
try:
    open("/proc/sys/user/max_user_namespaces", "w").write("100")
except OSError as error:
    found["raise the limit"] = errno.errorcode[error.errno]
found["limit"] = open("/proc/sys/user/max_user_namespaces").read().strip()
print(json.dumps(found))
"""

NFTABLES = """\
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.unshare(0x40000000)
def message(kind, flags, family, resource, attributes=b""):
    body = struct.pack(">BBH", family, 0, resource) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body
netfilter = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
netfilter.bind((0, 0))
table = struct.pack("=HH", 4 + 5, 1) + b"evil\\0" + bytes(3)
netfilter.send(message(16, 1, 0, 10) + message(10 << 8, 0x405, 2, 0, table) + message(17, 1, 0, 10))
print(struct.unpack_from("=4xH10xi", netfilter.recv(65536)))
"""

OTHERS = """\
refused = {
    "acct": (163, 51), "bpf": (321, 357), "clock_settime": (227, 264), "delete_module": (176, 129),
    "finit_module": (313, 350), "init_module": (175, 128), "iopl": (172, 110), "kexec_load": (246, 283),
    "lookup_dcookie": (212, 253), "modify_ldt": (154, 123), "move_pages": (279, 317), "open_by_handle_at": (304, 342),
    "perf_event_open": (298, 336), "quotactl": (179, 131), "reboot": (169, 88), "settimeofday": (164, 79),
    "swapoff": (168, 115), "swapon": (167, 87), "syslog": (103, 103), "userfaultfd": (323, 374), "vhangup": (153, 111),
    "vmsplice": (278, 316),
}
hidden = {
    "io_uring_setup": (425, 425), "memfd_secret": (447, 447), "sysfs": (139, 135), "ustat": (136, 62),
}
for calls in (refused, hidden):
    results = {(named(native(first)), named(compat(second)), named(x32(first))) for first, second in calls.values()}
    print(json.dumps(sorted(results)))
print(named(native(135, 0x400000)), native(135, 0xFFFFFFFF))
"""

OOM = """\
import errno
before = int(open("/proc/self/oom_score_adj").read())
def lower(score):
    try:
        open("/proc/self/oom_score_adj", "wb", buffering=0).write(b"%d" % score)  # a buffer hides the error
    except OSError as error:
        return errno.errorcode[error.errno]
    return "lowered"
print(before, *[lower(score) for score in (-1000, -1, 0, 989)], int(open("/proc/self/oom_score_adj").read()))
print(open("/proc/1/oom_score_adj").read())
"""

DAILY = """\
import ctypes, mmap, multiprocessing, os, signal, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
thread = threading.Thread(target=print, args=["thread"]); thread.start(); thread.join()
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, [-1, 2])))
os.close(os.memfd_create("memory"))
assert libc.inotify_init1(0) >= 0
assert libc.fanotify_init(0x200, 0) >= 0  # FAN_REPORT_FID, as users may
assert libc.syscall(444, None, 0, 1) >= 1 or ctypes.get_errno() == 95  # landlock's version, where it is on
assert libc.personality(0x40000) >= 0  # as gdb and the thread sanitizer do
tracee = os.fork()
if tracee == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
os.waitpid(tracee, 0)
assert libc.ptrace(7, tracee, 0, 0) == 0
assert os.waitstatus_to_exitcode(os.waitpid(tracee, 0)[1]) == 7
mmap.mmap(-1, 4096, prot=7).close()
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_STREAM).close()
[each.close() for each in socket.socketpair()]
subprocess.run(["true"], check=True, start_new_session=True)
print("all")
"""


@pytest.fixture
def starters_key() -> Iterator[list[int]]:
    """The serial numbers of new keys, one in each keyring of the user that starts the service."""
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"ci-test-{uuid.uuid4()}".encode()
    serials = [libc.syscall(SYS_ADD_KEY, b"user", name, b"secret", 6, place) for place in (SESSION, USER, USER_SESSION)]
    yield serials
    for serial in serials:
        libc.syscall(SYS_KEYCTL, KEYCTL_INVALIDATE, serial)


def attack(vm: Guest, program: str) -> list[str]:
    return vm.python(CALLS + program).splitlines()


def test_a_job_has_no_keyring_of_its_starter_or_another_vm(boot: Boot, starters_key: list[int]) -> None:
    assert all(serial > 0 for serial in starters_key)
    for vm in (boot(), boot()):
        line, *listed = attack(vm, f"STARTERS = {starters_key}\n{KEYS}")
        assert json.loads(line) == [["compat", "EPERM"], ["native", "EPERM"], ["starter", "EPERM"], ["x32", "ENOSYS"]]
        assert not [line for line in listed if "from-a-job" in line or "ci-test" in line]


def test_no_vm_is_made_where_no_empty_keyring_is_to_be_had() -> None:
    """Otherwise a VM would keep the keyring of the user that started the service."""
    done = subprocess.run([sys.executable, "-I", "-c", WITHOUT_KEYRINGS], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "join an empty session keyring: Operation not permitted" in done.stderr


def test_a_job_makes_sockets_of_four_families_only(boot: Boot) -> None:
    (line,) = attack(boot(), FAMILIES)
    closed = {"native": ["EAFNOSUPPORT"], "socketcall": ["ENOSYS"], "x32": ["ENOSYS"]}
    for way, families in json.loads(line).items():
        opened = {int(family) for family, results in families.items() if "done" in results}
        refused = {tuple(results) for family, results in families.items() if int(family) not in {1, 2, 10, 16}}
        of_sockets = not way.startswith(("socketcall", "x32"))
        assert opened <= ({1, 2, 10, 16} if of_sockets else set()), way
        assert {1} <= opened or not of_sockets, way
        assert refused == {tuple(closed["native" if of_sockets else way.split()[0]])}, way


def test_calls_that_no_build_needs_are_refused_in_every_abi(boot: Boot) -> None:
    refused, hidden, personality = attack(boot(), OTHERS)
    assert json.loads(refused) == [["EPERM", "EPERM", "ENOSYS"]]
    assert json.loads(hidden) == [["ENOSYS", "ENOSYS", "ENOSYS"]]
    assert personality == "EPERM 0"


def test_a_job_has_no_user_namespace_of_its_own_and_no_nftables(boot: Boot) -> None:
    vm = boot()
    (line,) = attack(vm, NAMESPACES)
    found = json.loads(line)
    assert {found.pop("clone3"), found.pop("clone3, compat"), found.pop("unshare, x32")} == {"ENOSYS"}
    assert found.pop("limit") == "0"
    assert found.pop("raise the limit") in {"EPERM", "EACCES"}
    assert set(found.values()) == {"EPERM"}
    assert vm.python(NFTABLES) == "(2, -1)"


def test_the_owner_may_allow_nested_user_namespaces(host: Host, boot: Boot) -> None:
    vm = boot(provider=host.provider(SandboxSettings(user_namespaces=True)))
    assert vm.says("unshare --user --map-root-user --net --mount id -u") == "0"
    nested = "unshare --user --map-root-user python3 - <<'END'\n" + CALLS + FAMILIES + "END"
    for way, families in json.loads(vm.says(nested)).items():
        opened = {int(family) for family, results in families.items() if "done" in results}
        assert opened <= {1, 2, 10, 16}, way


def test_a_job_cannot_have_others_killed_when_memory_runs_out(boot: Boot) -> None:
    """The process that starts a VM fixes the VM's lowest OOM score, which takes `sys_resource`."""
    vm = boot()
    own, of_init = vm.python(OOM).splitlines()
    assert int(of_init) == 990
    begins, *lowered, ends = own.split()
    assert begins == "995"
    if may_fix_the_least_score():
        assert (set(lowered), ends) == ({"EACCES"}, "995")


def may_fix_the_least_score() -> bool:
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) & 1 << SYS_RESOURCE)


def test_a_job_has_the_capabilities_of_a_container_and_mounts(boot: Boot) -> None:
    vm = boot()
    sets = vm.says("grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status | cut -f 2").split()
    assert {int(each, 16) for each in sets} == {0xA82C05FB}


def test_what_builds_do_every_day_works_under_the_filter(boot: Boot) -> None:
    vm = boot()
    assert vm.python(DAILY).split() == ["thread", "3", "all"]
    assert vm.says("unshare -m -p -f --mount-proc sh -c 'echo $$; cat /proc/1/comm'") == "1\nsh"
    root = "mkdir -p /r/old && mount --bind / /r && cd /r && mkdir -p old && pivot_root . old && chroot . id -u"
    assert vm.says(f"unshare -m sh -ec '{root}'") == "0"
    assert vm.says("unshare -n sh -c 'ls /sys/class/net >/dev/null; nsenter -t 1 -u hostname || hostname'") == "vm"
