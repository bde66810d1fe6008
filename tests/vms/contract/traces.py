"""Traces that a job leaves of itself in all places where another VM might find them.

`LEAVE` leaves them and stays. `SEEK` prints those that it finds, and runs in any VM.
"""

from __future__ import annotations

PLACES = {
    "abstract socket",
    "file in memory",
    "file of the disk",
    "file of the system",
    "listener",
    "message queue",
    "mount",
    "process",
    "queue of System V",
    "shared memory",
}

OWN_KERNEL_PLACES = {"key"}
"""Places that a job is refused where VMs share a kernel."""

_BOTH = """\
import ctypes, os, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
MARK, PORT, KEY = "left-by-a-job", 47123, 0x6C656674
ADD_KEY, KEYCTL, SEARCH, USER_KEYRING = 248, 250, 10, -4
FILES = {"file in memory": "/dev/shm/" + MARK, "file of the disk": "/workspace/" + MARK,
         "file of the system": "/etc/" + MARK}
"""

LEAVE = (
    _BOTH
    + """\
for path in FILES.values():
    open(path, "w").close()
os.mkdir("/mnt/" + MARK)
subprocess.run(["mount", "-t", "tmpfs", MARK, "/mnt/" + MARK], check=True)
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0" + MARK)
abstract.listen()
listener = socket.create_server(("0.0.0.0", PORT))
libc.syscall(ADD_KEY, b"user", MARK.encode(), b"secret", 6, USER_KEYRING)  # refused where the kernel is shared
assert libc.shmget(KEY, 4096, 0o1666) >= 0
assert libc.msgget(KEY, 0o1666) >= 0
assert libc.mq_open(b"/" + MARK.encode(), os.O_CREAT | os.O_RDWR, 0o666, None) >= 0
if os.fork():
    os._exit(0)
os.setsid()
ctypes.CDLL(None).prctl(15, MARK.encode(), 0, 0, 0)  # its name
os.dup2(os.open("/dev/null", os.O_RDWR), 1)
os.dup2(1, 2)
signal.pause()
"""
)

SEEK = (
    _BOTH
    + """\
found = {name for name, path in FILES.items() if os.path.exists(path)}
with socket.socket(socket.AF_UNIX) as client:
    if client.connect_ex("\\0" + MARK) == 0:
        found.add("abstract socket")
with socket.socket() as client:
    if client.connect_ex(("127.0.0.1", PORT)) == 0:
        found.add("listener")
if libc.syscall(KEYCTL, SEARCH, USER_KEYRING, b"user", MARK.encode(), 0) >= 0:
    found.add("key")
if libc.shmget(KEY, 0, 0) >= 0:
    found.add("shared memory")
if libc.msgget(KEY, 0) >= 0:
    found.add("queue of System V")
if libc.mq_open(b"/" + MARK.encode(), os.O_RDONLY) >= 0:
    found.add("message queue")
if MARK in open("/proc/self/mountinfo").read():
    found.add("mount")
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        if open(f"/proc/{process}/comm").read().strip() == MARK:
            found.add("process")
    except OSError:
        continue
print("\\n".join(sorted(found)))
"""
)
