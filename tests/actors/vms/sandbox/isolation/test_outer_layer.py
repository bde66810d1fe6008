"""Attacks of a job on the service's own part of its VM: sshd, init, the supervisor, the entrance.

The job's processes are root, with sys_admin and sys_ptrace in the VM's user namespace, to which both parts belong.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.vms import Connection, SandboxSettings
from storage import SystemClock
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.actors.vms.sandbox.isolation.ways_back import WAYS

_MOUNT = re.compile(r"leads to mount (\d+) by")
MOUNTS = "cut -d ' ' -f 1 /proc/self/mountinfo"


def out_of_reach(vm: Guest) -> set[str]:
    """Return the ids of all mounts of the host, of the VM's monitor, and of its outer layer."""
    ids = set(vm.outside(MOUNTS).split())
    for process in {Path("/proc/self"), *(Path(f"/proc/{each.pid}") for each in vm.folder.processes() if each.alive)}:
        ids |= {line.split()[0] for line in (process / "mountinfo").read_text().splitlines()}
    return ids


def found(vm: Guest, said: str) -> list[str]:
    """Return what an attack said, without mounts that went meanwhile.

    A new mount, such as one that the attack makes, takes the id of one that went.
    """
    left = out_of_reach(vm)
    mounts = ((line, _MOUNT.search(line)) for line in said.splitlines())
    return [line for line, mount in mounts if mount is None or mount[1] in left]


@pytest.fixture(params=["a container's capabilities", "nested user namespaces"])
def vm(request: pytest.FixtureRequest, host: Host, boot: Boot) -> Guest:
    """A VM whose network is that of its outer layer, so that it shares as much with it as a job can."""
    nested = request.param == "nested user namespaces"
    return boot(network=True, provider=host.provider(SandboxSettings(user_namespaces=nested)))


def test_no_way_leads_from_a_command_to_the_outer_layer(vm: Guest) -> None:
    vm.run("cat >/run/ways.py", stdin=WAYS.encode())
    said = vm.command(f"python3 /run/ways.py {','.join(out_of_reach(vm))}", seconds=100)
    assert found(vm, said) == ["tried all"]
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")


def test_no_way_leads_from_an_entered_shell_to_the_outer_layer(vm: Guest) -> None:
    """As debugging and rendering have it: such a shell also sees the PID 1 of the job, and its command."""
    done = vm.run(f"python3 - {','.join(out_of_reach(vm))}", stdin=WAYS.encode(), timeout=100)
    assert (found(vm, done.stdout.decode()), done.exit_code) == (["tried all"], 0)
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")


INTERPRETER = r"""
import ctypes, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
program = bytearray(open("/bin/echo", "rb").read())
program[7] = 3  # another ABI of the same programs, so that it is not its own interpreter
with open("/run/interpreter", "wb") as file:
    file.write(program)
os.chmod("/run/interpreter", 0o755)
if libc.mount(b"none", b"/mnt", b"binfmt_misc", 0, None) != 0:
    print("refused", os.strerror(ctypes.get_errno()))
    raise SystemExit
with open("/mnt/register", "wb") as file:
    file.write(rb":all:M::\x7fELF\x02\x01\x01\x00::/run/interpreter:F")
print(subprocess.run(["/bin/true", "it", "is", "registered"], stdout=subprocess.PIPE, text=True).stdout.strip())
"""


def test_no_interpreter_of_a_job_runs_in_the_outer_layer(vm: Guest) -> None:
    """Before Linux 6.7 no VM may mount ``binfmt_misc`` at all."""
    said = vm.python(INTERPRETER)
    assert said == "/bin/true it is registered" or said.startswith("refused")
    assert vm.outside("echo well") == "well"
    with Connection(vm.provider.connect(vm.id), SystemClock()) as again:
        assert again.run("echo well", timeout=60).stdout == b"well\n"
    assert vm.provider.alive(vm.id)


WATCHER = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
own = {line.split()[0] for line in open("/proc/self/mountinfo")}
def enters(process):  # asked again after each look: the shell that it becomes is the job's, with all that it has
    return open(f"/proc/{process}/comm").read() == "perl\n"
print("up", flush=True)
seen = set(os.listdir("/proc"))
reached = set()
while not os.path.exists("/run/stop"):
    for process in set(os.listdir("/proc")) - seen:
        try:
            if not enters(process):
                continue
            reached.add("seen")
            taken = libc.syscall(438, os.pidfd_open(int(process)), 0, 0)
            if taken >= 0 and enters(process):
                reached.add("a descriptor")
            for link in ("exe", "root", "cwd", "fd/3"):
                found = os.open(f"/proc/{process}/{link}", os.O_PATH)
                (mount,) = [line.split()[1] for line in open(f"/proc/self/fdinfo/{found}") if "mnt_id" in line]
                if mount not in own and enters(process):
                    reached.add(link)
                os.close(found)
        except OSError:
            continue
print(*sorted(reached))
"""
ENTERING = 40


def test_nothing_that_enters_the_job_is_in_its_reach(vm: Guest) -> None:
    """Until it is a program of the job: before, it has capabilities that no job has."""
    vm.run("cat >/run/watch.py", stdin=WATCHER.encode())
    vm.says("setsid -f python3 /run/watch.py >/run/reached 2>&1; until [ -s /run/reached ]; do sleep 0.1; done")
    for _ in range(ENTERING):
        vm.says("true")
    vm.says("touch /run/stop; until [ $(wc -l </run/reached) = 2 ]; do sleep 0.1; done")
    assert vm.says("cat /run/reached") in {"up", "up\nseen"}
