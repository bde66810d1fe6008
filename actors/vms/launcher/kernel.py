"""System calls that Python 3.11 has no function for, and writes to readers that may have ended.

Each call raises OSError with its name.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import ctypes
import errno
import os

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_MOVE = 8192
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24

_OPEN_TREE, _MOVE_MOUNT, _PIDFD_GETFD, _MOUNT_SETATTR = 428, 429, 438, 442
_OPEN_TREE_CLONE, _O_CLOEXEC, _AT_FDCWD, _AT_RECURSIVE = 1, 0o2000000, -100, 0x8000
_MOVE_MOUNT_FROM_DESCRIPTOR = 4
_MOUNT_ATTR_RDONLY = 1

_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "armv7l": 120}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "armv7l": 218}
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "armv7l": 311}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "armv7l": 383}
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 4
_SIGNALS = 65
_CAPABILITY_VERSION_3 = 0x20080522
_ARG_START, _ARG_END = 45, 46

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None, use_errno=True)
"""The same library, for a call in which the interpreter's lock stays with this thread."""


def unshare(flags: int) -> None:
    """Move to new namespaces of the kinds in ``flags``."""
    _checked(_libc.unshare(flags), "unshare")


def fork_into(kinds: int) -> int:
    """Fork a child into new namespaces of these ``kinds``; return its id, in the child 0.

    To unshare them and fork would take a process more. The only thread of this process may call it: Python does not
    know of the fork.
    """
    nothing = ctypes.c_long(0)
    call = ctypes.c_long(_CLONE[os.uname().machine]), ctypes.c_long(kinds | _signal.SIGCHLD)
    pid = _python.syscall(*call, nothing, nothing, nothing, nothing)
    _checked(min(pid, 0), "make namespaces")
    return int(pid)


def join(path: str) -> None:
    """Join the namespace at ``path``."""
    namespace = os.open(path, os.O_RDONLY)
    _checked(_libc.setns(namespace, 0), f"join {path}")
    os.close(namespace)


def join_descriptor(namespaces: int, kinds: int) -> None:
    """Join a namespace, or the namespaces of ``kinds`` of the process of a pidfd."""
    _checked(_libc.setns(namespaces, kinds), "join a namespace")


def copy_of_mount(path: str) -> int:
    """Return a descriptor of a copy of the mount at ``path``, which is in no namespace yet."""
    flags = _OPEN_TREE_CLONE | _O_CLOEXEC
    tree = _libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), ctypes.c_uint(flags))
    _checked(min(tree, 0), f"copy the mount at {path}")
    return int(tree)


def attach_mount(tree: int, target: str) -> None:
    """Attach a mount that is in no namespace."""
    flags = _MOVE_MOUNT_FROM_DESCRIPTOR
    _checked(_libc.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), flags), f"mount {target}")


def make_read_only(path: str) -> None:
    """Make a mount read-only, with all mounts below it."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, ctypes.sizeof(attributes)
    )
    _checked(done, f"make {path} read-only")


def descriptor_of(process: int, number: int) -> int:
    """Return a copy of a descriptor of the process of a pidfd."""
    copy = _libc.syscall(_PIDFD_GETFD, process, number, 0)
    _checked(min(copy, 0), "take a descriptor")
    return int(copy)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount ``source``; a link at ``target`` is followed."""
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(data)
    )
    _checked(done, f"mount {kind or source} on {target}")


def unmount(target: str) -> None:
    """Detach a mount and all mounts below it at once."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make ``new_root`` the root of this mount namespace."""
    number = _PIVOT_ROOT[os.uname().machine]
    _checked(_libc.syscall(number, os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def join_empty_keyring() -> None:
    """Replace the inherited session keyring by an empty one; does nothing on kernels without keyrings."""
    if _libc.syscall(_KEYCTL[os.uname().machine], _KEYCTL_JOIN_SESSION_KEYRING, None) == -1:
        _checked(0 if ctypes.get_errno() == errno.ENOSYS else -1, "join an empty session keyring")


def set_hostname(name: str) -> None:
    """Set the host name of this UTS namespace."""
    _checked(_libc.sethostname(name.encode(), len(name)), "sethostname")


def restore_signals() -> None:
    """Reset every signal to its default and block none, whatever Python or a parent process has set."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number in range(1, _SIGNALS):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            continue


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    """Execute a program, which is looked for in the folders of PATH. Raises OSError."""
    name = argv[0]
    places = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in env.get("PATH", "").split(":")]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            os.execve(place, argv, env)  # noqa: S606 - the very point
    raise FileNotFoundError(2, "there is no such program in its image", name)


def survive_failed_writes() -> None:
    """Let a write to a pipe or socket without a reader, or past the largest size of files, raise OSError."""
    _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_IGN)


def ignore_children() -> None:
    """Let the kernel reap this process's children."""
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)


def await_children() -> None:
    """Let this process reap its children itself."""
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)


def child_ended(seconds: float) -> bool:
    """Wait up to ``seconds`` for a child of this process to end, and reap it; tell if one has ended."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGCHLD,))
    if os.waitpid(-1, os.WNOHANG)[0]:
        return True
    _signal.sigtimedwait((_signal.SIGCHLD,), seconds)
    return os.waitpid(-1, os.WNOHANG)[0] != 0


def close_all_but(*keep: int) -> None:
    """Close all other descriptors, and open ``/dev/null`` as the standard ones."""
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    first = 3
    for number in sorted(keep):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def set_dumpable(*, dumpable: bool) -> None:
    """Let processes of the same user inspect this one, or only root of the host."""
    _checked(_libc.prctl(PR_SET_DUMPABLE, int(dumpable), 0, 0, 0), "prctl")


def set_title(title: bytes) -> None:
    """Show ``title`` as this process's name and command line, so that these reveal nothing of the host."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, title, min(len(title), end - start - 1))
    _checked(_libc.prctl(PR_SET_NAME, title, 0, 0, 0), "prctl")  # the kernel takes 15 bytes of it


def keep_capabilities(kept: tuple[int, ...]) -> None:
    """Drop all other capabilities of this process and its children, whatever they execute."""
    bound_capabilities(kept)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = sum(1 << each for each in kept) & 0xFFFFFFFF, sum(1 << each for each in kept) >> 32
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)), "capset")


def bound_capabilities(kept: tuple[int, ...]) -> None:
    """Let nothing that this process or its children execute have another capability than these."""
    number = 0
    while _libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        if number not in kept:
            _checked(_libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "drop a capability")
        number += 1


def raise_oom_score(score: int) -> None:
    """Raise the OOM score of this process and its future children to at least ``score``.

    They cannot lower it if this process has CAP_SYS_RESOURCE.
    """
    with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
        if int(file.read()) < score:
            file.write(b"%d" % score)


def filter_calls(program: bytes) -> None:
    """Filter every system call, irrevocably, by a program in classic BPF, 8 bytes an instruction.

    It takes `sys_admin`. Old kernels leave out the mitigation by which they slow filtered processes down.
    """
    code = ctypes.create_string_buffer(program, len(program))
    header = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(code))
    number = _SECCOMP[os.uname().machine]
    flags = _SECCOMP_FILTER_FLAG_SPEC_ALLOW
    _checked(_libc.syscall(number, _SECCOMP_SET_MODE_FILTER, flags, header), "filter system calls")


def _checked(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def answer(descriptor: int, words: bytes) -> None:
    """Write an answer, unless nobody is left to read it."""
    try:
        os.write(descriptor, words)
    except BrokenPipeError:
        return
