"""Ways by which root of a job might reach the service's own part of its VM, or the host.

`WAYS` is a program for a job. It gets the ids of mounts that must stay out of reach, and prints each way that led to
one of them, to the service's folder, or to a process of the service.
"""

from __future__ import annotations

WAYS = r"""
import ctypes, fcntl, itertools, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
FORBIDDEN = set(map(int, sys.argv[1].split(",")))
SERVICE = {"sshd", "supervisor", "entrance", "nsenter", "ssh"}
NEWNS, NEWUSER, NEWPID, DETACH, BIND, REC, MOVE = 0x20000, 0x10000000, 0x20000000, 2, 0x1000, 0x4000, 0x2000
PROC = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
seen = set()

def say(way, what):
    if (way, what) not in seen:
        seen.add((way, what))
        print(way, "leads to", what, flush=True)

def text(path, at):
    descriptor = os.open(path, os.O_RDONLY, dir_fd=at)
    with open(descriptor) as file:
        return file.read()

def look(way, path, at=None):
    # Is this path in a mount that must stay out of reach?
    try:
        found = os.open(path, os.O_PATH, dir_fd=at)
    except OSError:
        return
    (mount,) = [int(line.split()[1]) for line in text(f"self/fdinfo/{found}", PROC).splitlines() if "mnt_id" in line]
    if mount in FORBIDDEN:
        say(way, f"mount {mount} by {path}")
    try:
        os.stat("run/ci-daemon", dir_fd=found)
        say(way, f"the service's folder by {path}")
    except OSError:
        pass
    os.close(found)

def entries(path, at):
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    except OSError:
        return []
    try:
        return os.listdir(folder)
    except OSError:
        return []
    finally:
        os.close(folder)

def survey(way, proc=PROC):
    # All that this process can see: its root, what is above it, mounts, and each process with all its links.
    for path in ("/", "/..", ".", "..", "../" * 40):
        look(way, path)
    for pid in filter(str.isdigit, entries(".", proc)):
        try:
            name = text(f"{pid}/comm", proc).strip()
        except OSError:
            continue
        if name in SERVICE:
            say(way, f"process {name}")
        for task in [pid, *(f"{pid}/task/{each}" for each in entries(f"{pid}/task", proc))]:
            for link in ("root", "root/..", "cwd", "cwd/..", "exe"):
                look(way, f"{task}/{link}", proc)
            for kind in ("fd", "map_files"):
                for each in entries(f"{task}/{kind}", proc):
                    look(way, f"{task}/{kind}/{each}", proc)
                    look(way, f"{task}/{kind}/{each}/..", proc)
        try:
            mounts = {int(line.split()[0]) for line in text(f"{pid}/mountinfo", proc).splitlines()}
        except OSError:
            continue
        for mount in mounts & FORBIDDEN:
            say(way, f"mount {mount} by the mounts of {name}")

def become_root():
    for name, content in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
        with open(os.open(f"self/{name}", os.O_WRONLY, dir_fd=PROC), "w") as file:
            file.write(content)

def apart(way, action, namespaces=0):
    # Try in a child of its own, so that one way does not spoil the next, and look around afterwards.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        first = 0
        try:
            if namespaces and libc.unshare(namespaces) != 0:
                os._exit(0)
            if namespaces & NEWUSER:
                become_root()
            if namespaces & NEWPID and (first := os.fork()) == 0:
                signal.pause()
            action()
            survey(way)
        except Exception as error:
            say(way, f"an error: {error!r}")
        finally:
            sys.stdout.flush()
            if first:
                os.kill(first, signal.SIGKILL)
            os._exit(0)
    os.waitpid(child, 0)

def detach(path, flags=DETACH):
    return libc.umount2(path.encode(), flags) == 0

def places():
    return [line.split()[4] for line in text("self/mountinfo", PROC).splitlines()]

def unmount_all():
    own = os.open("self/ns/mnt", os.O_RDONLY, dir_fd=PROC)
    for place in [*places()[::-1], "/proc", "/proc", "/dev", "/run", "/", "/", "/", "."]:
        for flags in (0, DETACH):
            detach(place, flags)
            look("umount", place)
    see_processes("umount")
    libc.setns(own, 0)  # which enters the mount at the bottom

def see_processes(way):
    for place in ("/proc", "/tmp/p"):
        os.makedirs(place, exist_ok=True)
        libc.mount(b"proc", place.encode(), b"proc", 0, None)
        survey(way, os.open(place, os.O_RDONLY))

def out_of_chroot():
    os.makedirs("/tmp/jail", exist_ok=True)
    top = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail")
    os.fchdir(top)
    for _ in range(60):
        os.chdir("..")
    os.chroot(".")

def pivot(*, detached):
    os.makedirs("/tmp/new", exist_ok=True)
    libc.mount(b"tmpfs", b"/tmp/new", b"tmpfs", 0, None)
    os.makedirs("/tmp/new/old")
    os.makedirs("/tmp/new/proc")
    os.chdir("/tmp/new")
    libc.syscall(155, b".", b"." if detached else b"old")
    see_processes("pivot_root")
    for path in (".", "old", "/old", "/", "/"):
        detach(path)
        look("pivot_root", path)

def pivot_onto_itself():
    libc.mount(b"/", b"/tmp", None, BIND | REC, None)
    os.chdir("/tmp")
    libc.syscall(155, b".", b".")
    for _ in range(4):
        detach(".")
        detach("/")
        look("pivot_root", ".")
        look("pivot_root", "..")
    os.chroot(".")

def move_the_root():
    os.makedirs("/tmp/x", exist_ok=True)
    libc.mount(b"/", b"/tmp/x", None, MOVE, None)
    for flags in (0, 1, 0x8001, 0x1001):
        tree = libc.syscall(428, -100, b"/", flags)
        if tree >= 0:
            look("open_tree", "..", tree)
            libc.syscall(429, tree, b"", -100, b"/tmp/x", 4)
            look("open_tree", "/tmp/x/..")

def fresh_proc():
    os.makedirs("/tmp/p", exist_ok=True)
    for kind in (b"proc", b"sysfs", b"devpts", b"cgroup", b"cgroup2", b"mqueue", b"debugfs", b"tracefs", b"bpf"):
        if libc.mount(b"none", b"/tmp/p", kind, 0, None) == 0:
            survey("a fresh " + kind.decode(), os.open("/tmp/p", os.O_RDONLY))

def into_namespaces():
    # Namespaces of each process, and what they name: owners, parents, neighbours.
    found = []
    for pid in filter(str.isdigit, entries(".", PROC)):
        for kind in entries(f"{pid}/ns", PROC):
            try:
                found.append(os.open(f"{pid}/ns/{kind}", os.O_RDONLY, dir_fd=PROC))
            except OSError:
                continue
    for number, size in itertools.product((1, 2, 6, 8, 11, 12), (0, 16, 32)):
        for namespace in found[:64]:
            try:
                info = bytearray(struct.pack("=IIQ", 16, 0, 0) + bytes(16))
                request = (2 << 30 | size << 16 | 0xB7 << 8 | number) if size else 0xB700 | number
                found.append(fcntl.ioctl(namespace, request, info) if size else fcntl.ioctl(namespace, request))
            except OSError:
                continue
    for namespace in found:
        apart("setns", lambda: libc.setns(namespace, 0))
        apart("setns and fork", lambda: (libc.setns(namespace, 0), libc.fork()))

def by_handle():
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    libc.syscall(303, -100, b"/", handle, ctypes.byref(mount), 0)
    for place in places():
        try:
            top = os.open(place, os.O_RDONLY)
        except OSError:
            continue
        for inode in (handle.raw, struct.pack("=IiIII", 8, 1, 2, 0, 0), struct.pack("=IiIII", 8, 1, 128, 0, 0)):
            opened = libc.syscall(304, top, ctypes.create_string_buffer(inode), os.O_RDONLY)
            if opened >= 0:
                say("open_by_handle_at", f"inode {os.stat(opened).st_ino}")

def numbered_mounts():
    number = bytearray(8)
    fcntl.ioctl(os.open("self/ns/mnt", os.O_RDONLY, dir_fd=PROC), 0x8008B705, number)
    (own,) = struct.unpack("=Q", number)
    for namespace in filter(own.__ne__, range(max(1, own - 1000), own + 100)):
        wanted = struct.pack("=IIQQQ", 32, 0, 2**64 - 1, 0, namespace)
        if libc.syscall(458, wanted, (ctypes.c_uint64 * 64)(), 64, 0) >= 0:
            say("listmount", f"namespace {namespace}")

def processes():
    # Trace, read, and take descriptors of processes that are not this one's.
    for pid in map(int, filter(str.isdigit, entries(".", PROC))):
        try:
            name = text(f"{pid}/comm", PROC).strip()
        except OSError:
            continue
        if name not in {"init", "command"} | SERVICE:
            continue
        if libc.ptrace(16, pid, 0, 0) == 0 or libc.ptrace(0x4206, pid, 0, 0) == 0:
            say("ptrace", name)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            continue
        for number in range(64):
            if libc.syscall(438, pidfd, number, 0) >= 0:
                say("pidfd_getfd", f"descriptor {number} of {name}")
        for request in range(1, 12):
            if libc.ioctl(pidfd, 0xFF00 | request, 0) >= 0:
                say("a pidfd's namespaces", name)
        if libc.setns(pidfd, NEWNS) == 0:
            say("setns by pidfd", name)
        for secret in ("environ", "mem", "maps", "auxv", "syscall", "stack", "personality"):
            try:
                if text(f"{pid}/{secret}", PROC):
                    say("/proc", f"{secret} of {name}")
            except OSError:
                continue

def sockets():
    for line in text("self/net/unix", PROC).splitlines()[1:]:
        for name in line.split()[7:]:
            for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_UNIX, kind) as client:
                    if client.connect_ex(name.replace("@", "\0")) == 0:
                        say("sockets", name)

survey("at first")
for way, action in {
    "namespaces": into_namespaces, "handles": by_handle, "mounts by number": numbered_mounts, "sockets": sockets,
    "processes": processes, "fresh": fresh_proc, "chroot": out_of_chroot, "moved root": move_the_root,
    "pivot_root onto itself": pivot_onto_itself, "pivot_root": lambda: pivot(detached=False),
    "pivot_root in place": lambda: pivot(detached=True), "umount": unmount_all,
}.items():
    for flags in (NEWNS, NEWNS | NEWPID, NEWUSER | NEWNS | NEWPID):
        apart(f"{way} after unshare", action, flags)
    if way not in ("pivot_root", "pivot_root in place"):  # these would spoil the rest
        apart(way, action)
print("tried all", flush=True)
"""
