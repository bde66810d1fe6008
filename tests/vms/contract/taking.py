"""Programs of a job that takes all that the kernel counts by user."""

from __future__ import annotations

AS_SEVERAL_USERS = """\
import ctypes, os, signal, struct
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
        signal.pause()
    taken += struct.unpack("=q", os.read(read, 8))[0]
print(taken, flush=True)
signal.pause()
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

PIPES = """\
import os, signal
held = [os.pipe() for _ in range(4000)]
print(len(held), flush=True)
signal.pause()
"""
"""Four times as many as a kernel gives one user at their full size."""

PIPE_BYTES = """\
import fcntl, os
read, write = os.pipe()
os.write(write, bytes(4096))
assert len(os.read(read, 4096)) == 4096
print(fcntl.fcntl(read, fcntl.F_GETPIPE_SZ))
"""
"""It prints the size of a new pipe."""

TERMINALS = """\
import os, signal
held = []
try:
    while True:
        held.append(os.open("/dev/ptmx", os.O_RDWR))
except OSError:
    print(len(held), flush=True)
signal.pause()
"""

IN_FLIGHT = """\
import array, resource, signal, socket
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
signal.pause()
"""


def taking(what: str) -> str:
    """Return the source of a function ``take`` that takes one more and returns whether it could."""
    return f"import ctypes, os, signal, struct\nqueues = 0\ndef take():\n    {TAKERS[what].strip()}\n"
