"""Programs of a job each of which takes all that it can of something, and ignores TERM.

Those of `HOGS` print "up" once they have begun.
"""

from __future__ import annotations

MEMORY = """\
import os
blocks = []
while len(blocks) < 4096:
    blocks.append(bytearray(os.urandom(1) * (1 << 20)))
print("took", len(blocks), "MiB")
"""
"""It takes up to 4 GiB and says so."""

_ALWAYS_MORE = """\
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
"""
_IN_MANY = """\
for _ in range(8):
    os.fork()
"""
HOGS = {
    "processes": """\
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    while os.fork():
        pass
except OSError:
    print("up", flush=True)
signal.pause()
""",
    "memory": _ALWAYS_MORE + """\
while True:
    child = os.fork()
    if child == 0:
        blocks = []
        while True:
            blocks.append(os.urandom(1) * (1 << 22))
    os.waitpid(child, 0)
""",
    "output": _ALWAYS_MORE + """\
block = bytes(1 << 20)
while True:
    os.write(1, block)
""",
    "processes without end": _ALWAYS_MORE + """\
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
""",
    "descriptors": _ALWAYS_MORE + _IN_MANY + """\
held = []
try:
    while True:
        held += socket.socketpair()
        held += os.pipe()
except OSError:
    signal.pause()
""",
    "terminals": _ALWAYS_MORE + """\
held = []
try:
    while True:
        held.append(os.open("/dev/ptmx", os.O_RDWR))
except OSError:
    signal.pause()
""",
    "CPU": _ALWAYS_MORE + _IN_MANY + """\
while True:
    pass
""",
    "files in memory": _ALWAYS_MORE + """\
for place in ("/dev/shm/full", "/run/full", "/tmp/full", "/workspace/full"):
    try:
        with open(place, "wb", 0) as file:
            for _ in range(600):
                file.write(bytes(1 << 20))
    except OSError:
        continue
signal.pause()
""",
}  # fmt: skip
