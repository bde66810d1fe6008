"""Programs for a VM that find what a job can use of the kernel, by trying all that there is.

Each program prints JSON. What is refused for want of a capability, or by the filter of system calls, cannot be used;
what fails for another reason can, since code of the kernel has run for it that a job could attack.
"""

from __future__ import annotations

FILE_SYSTEMS = r"""
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
NEWNS, READ_ONLY, PRIVATE = 0x20000, 1, 1 << 18 | 0x4000
kinds = [line.split()[-1] for line in open("/proc/filesystems")]
groups = [line.split()[0] for line in open("/proc/cgroups")] if os.path.exists("/proc/cgroups") else []
os.makedirs("/run/mounted", exist_ok=True)
for part in ("lower", "upper", "work"):
    os.makedirs(f"/run/layers/{part}", exist_ok=True)
layers = "lowerdir=/run/layers/lower,upperdir=/run/layers/upper,workdir=/run/layers/work"
given = {"overlay": [layers], "cgroup": groups}

def mounted(kind):
    for options in ["", *given.get(kind, [])]:
        for flags in (0, READ_ONLY):
            if libc.mount(b"/dev/null", b"/run/mounted", kind.encode(), flags, options.encode()) == 0:
                return True
            if ctypes.get_errno() not in (errno.EPERM, errno.EACCES):
                return True
    return False

def in_child(action):
    child = os.fork()
    if child == 0:
        done = 2
        try:
            assert libc.unshare(NEWNS) == 0 and libc.mount(b"none", b"/", None, PRIVATE, None) == 0
            done = int(action())
        finally:
            os._exit(done)
    done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert done in (0, 1), done
    return done == 1

print(json.dumps({"there": kinds, "used": [kind for kind in kinds if in_child(lambda: mounted(kind))]}))
"""

SOCKETS = r"""
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT,
           errno.EPROTOTYPE, errno.EINVAL}
INET, KERNEL = (2, 10), 16
used = []
for family in range(64):
    for kind in range(1, 16):
        for protocol in range(263 if family in INET else 32 if family == KERNEL else 4):
            made = libc.socket(family, kind, protocol)
            if made >= 0:
                os.close(made)
            elif ctypes.get_errno() in REFUSED:
                continue
            used.append((family, kind, protocol))
print(json.dumps({"used": used}))
"""

DEVICES = r"""
import errno, json, os, stat
used = set()
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys")]
    for name in files:
        path = os.path.join(folder, name)
        found = os.lstat(path)
        if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
            continue
        for way in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            try:
                os.close(os.open(path, way | os.O_NONBLOCK | os.O_NOCTTY))
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    continue
            kind = "c" if stat.S_ISCHR(found.st_mode) else "b"
            used.add(f"{kind} {os.major(found.st_rdev)} {os.minor(found.st_rdev)}")
made = set()
os.makedirs("/run/made", exist_ok=True)
for place in ("/run/made", "/dev", "/workspace"):
    for kind, name in ((stat.S_IFCHR, "c"), (stat.S_IFBLK, "b")):
        for major in range(1, 512):
            path = f"{place}/node"
            try:
                os.mknod(path, kind | 0o600, os.makedev(major, 1))
            except OSError:
                continue
            made.add(f"{name} {major} 1 in {place}")
            os.unlink(path)
print(json.dumps({"used": sorted(used), "made": sorted(made)}))
"""

CALLS = r"""
import ctypes, errno, fcntl, json, mmap, os, platform, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# A call with this fifth argument waits for the listener, which answers with ANSWER, unless the VM's own filter, which
# goes first, has refused it: so it is never made.
MARK, ANSWER = 0x5EED5EED, 3999
SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}[platform.machine()]
PIDFD_GETFD, RECEIVE, SEND = 438, 0xC0502100, 0xC0182101
NOTIFY, ALLOW, FIFTH = 0x7FC00000, 0x7FFF0000, 16 + 4 * 8
NUMBERS, ARGUMENTS = [*range(700), *range(983_030, 983_060)], (0, 1)
PASSING = {"x86_64": (335, 336)}.get(platform.machine(), ())
# uretprobe and uprobe pass every filter: the kernel ends a program by SIGILL that makes them where it has set no probe.
pages = []

def asked(number, argument):
    done = libc.syscall(*map(ctypes.c_long, (number, argument, argument, argument, argument, MARK)))
    return ctypes.get_errno() if done == -1 else 0

def asked_of_32_bits():
    # push rbx; eax, ebx, ecx, edx, esi, edi = the six arguments; int 0x80; pop rbx; ret
    code = bytes.fromhex("53 89f8 89f3 89cf 89d1 89fa 4489c6 4489cf cd80 5b c3")
    pages.append(page := mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7))
    page.write(code)
    enter = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 6)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return lambda number, argument: -enter(number, argument, argument, argument, argument, MARK)

def listen(report):
    code = b"".join(struct.pack("=HBBI", *each) for each in (
        (0x20, 0, 0, FIFTH), (0x15, 0, 1, MARK), (0x06, 0, 0, NOTIFY), (0x06, 0, 0, ALLOW)))
    program = ctypes.create_string_buffer(code, len(code))
    header = (ctypes.c_uint64 * 2)(len(code) // 8, ctypes.addressof(program))
    listener = libc.syscall(SECCOMP, 1, 8, header)
    assert listener >= 0, os.strerror(ctypes.get_errno())
    os.write(report, b"%d" % listener)

def ask(report, results):
    listen(report)
    ways = {"": (asked, 0)}
    if platform.machine() == "x86_64":
        ways |= {"x32": (asked, 0x40000000), "i386": (asked_of_32_bits(), 0)}
    used = {name: [number for number in NUMBERS if number not in PASSING * (not name) and any(
                       way(number | bit, argument) == ANSWER for argument in ARGUMENTS)]
            for name, (way, bit) in ways.items()}
    with os.fdopen(results, "w") as file:
        json.dump({"machine": platform.machine(), "used": used}, file)

reported, report = os.pipe()
output, results = os.pipe()
child = os.fork()
if child == 0:
    try:
        ask(report, results)
    finally:
        os._exit(0)
os.close(results)
os.close(report)
listener = libc.syscall(PIDFD_GETFD, os.pidfd_open(child), int(os.read(reported, 16)), 0)
assert listener >= 0, os.strerror(ctypes.get_errno())
answering = os.fork()
if answering == 0:
    while True:
        notice = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, notice)
            answer = struct.pack("=QqiI", struct.unpack_from("=Q", notice)[0], 0, -ANSWER, 0)
            fcntl.ioctl(listener, SEND, bytearray(answer))
        except OSError:
            os._exit(0)
print(open(output).read())
os.kill(answering, signal.SIGKILL)
"""
