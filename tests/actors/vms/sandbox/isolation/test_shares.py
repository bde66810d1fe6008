"""Attacks on the kernel's limits by user: one VM takes all it can, and another still starts and runs."""

from __future__ import annotations

import pytest

from actors.vms.sandbox import SandboxSettings, VmLimits
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.actors.vms.sandbox.isolation.bomb import bombs

AS_SEVERAL_USERS = """\
import ctypes, os, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
taken = 0
for uid in (0, 1, 2, 3, 4, 5, 6, 7):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setgid(uid)
        os.setuid(uid)
        count = 0
        while count < 200_000 and take():
            count += 1
        os.write(write, struct.pack("=q", count))
        while True:
            time.sleep(60)
    taken += struct.unpack("=q", os.read(read, 8))[0]
print(taken, flush=True)
while True:
    time.sleep(60)
"""

TAKERS = {
    "inotify instances": "return libc.inotify_init() >= 0",
    "pending signals": """
    value = signal.SIGRTMIN
    signal.pthread_sigmask(signal.SIG_BLOCK, {value})
    return libc.sigqueue(os.getpid(), value, None) == 0""",
    "bytes of message queues": """
    global queues
    queues += 1
    attributes = struct.pack("=4q", 0, 10, 8192, 0) + bytes(32)
    name = b"/%d-%d" % (os.getpid(), queues)
    return libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, attributes) >= 0""",
}

IN_FLIGHT = """\
import array, resource, socket, sys, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
sent = 0
null = open("/dev/null")
many = array.array("i", [null.fileno()] * 253)
try:
    while sent < 300000:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        held += pair
        try:
            while True:
                pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)], socket.MSG_DONTWAIT)
                sent += len(many)
        except BlockingIOError:
            pass
except OSError:
    pass
print(sent, flush=True)
time.sleep(60)
"""


def taking(what: str) -> str:
    """Return the source of a function ``take`` that takes one more and returns whether it could."""
    return f"import ctypes, os, signal, struct\nqueues = 0\ndef take():\n    {TAKERS[what].strip()}\n"


def leave(vm: Guest, program: str) -> int:
    """Start a program that prints a number and keeps running; return the number."""
    vm.run("cat > /tmp/program.py", stdin=program.encode())
    vm.says("setsid -f python3 /tmp/program.py > /tmp/output 2>&1; until [ -s /tmp/output ]; do sleep 0.05; done")
    return int(vm.says("cat /tmp/output"))


@pytest.mark.parametrize("what", TAKERS)
def test_no_vm_takes_it_from_another_under_any_number_of_ids(boot: Boot, what: str) -> None:
    greedy, other = boot(), boot()
    assert leave(greedy, taking(what) + AS_SEVERAL_USERS) > 0
    prepared = "libc = ctypes.CDLL(None, use_errno=True)\nprint(take(), os.strerror(ctypes.get_errno()))"
    assert other.python(taking(what) + prepared).startswith("True")


def test_descriptors_in_flight_stop_no_networked_vm(boot: Boot) -> None:
    greedy = boot()
    assert leave(greedy, IN_FLIGHT) > 1000
    other = boot(network=True)
    assert other.says("ls /sys/class/net") == "eth0\nlo"
    assert other.command("echo well") == "well"


def test_no_vm_can_take_the_id_of_the_network_s_program(boot: Boot) -> None:
    taking_it = "import os\ntry: os.setuid(65535)\nexcept OSError as error: print(error.strerror)"
    assert boot().python(taking_it) == "Invalid argument"


@pytest.mark.parametrize("groups", [True, False])
def test_a_fork_bomb_of_several_users_is_one_vm_s(host: Host, boot: Boot, groups: bool) -> None:
    provider = host.provider(SandboxSettings(processes=100))
    if not groups:
        provider.limits = VmLimits(100, ())
    vm = boot(provider=provider)
    assert sum(map(int, vm.python(bombs(500, users=4)).split())) < 100
    assert vm.says("echo well") == "well"
