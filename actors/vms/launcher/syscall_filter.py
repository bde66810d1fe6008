"""The filter of a VM's system calls: refuses by default and allows what ``syscalls.txt`` lists.

All VMs share the kernel, so system calls that a build does not need are closed, in the ABI of the machine and in that
of its 32-bit programs. Sockets are limited to four address families: others, such as ``AF_VSOCK``, bypass the VM's
network namespace and reach the host and other VMs.

A filter sees numbers, not the memory behind a pointer. So ``clone3`` fails as on kernels without it, unless nested user
namespaces are allowed, and libraries fall back to ``clone``. ``socketcall``, a call of 32-bit x86, makes no socket:
programs with musl use ``socket`` instead; programs with glibc or in Go get none.

libseccomp, which pyseccomp wraps, would compile such filters, but hosts need not have it, and each version refuses the
names of newer calls: that of Debian 12 does not know ``cachestat``. A test compares the numbers with it.
"""

from __future__ import annotations

import os
import struct

from .kernel import CLONE_NEWUSER, filter_calls

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Iterable

    Ranges = list[tuple[int, bytes]]
    """Calls by number: the first of each range, and the code that decides on the whole range."""

CALL_LIST = f"{os.path.dirname(__file__)}/syscalls.txt"
"""The file that lists the allowed calls, with their number in each ABI."""

_ABIS = {"x86_64": 0xC000003E, "i386": 0x40000003, "aarch64": 0xC00000B7, "arm": 0x40000028, "riscv64": 0xC00000F3}
"""The columns of the list, with the kernel's number of each ABI.

The calls of x32 are those of x86_64 with other numbers, which the list lacks.
"""

MACHINES = {
    "x86_64": ("x86_64", "i386"),
    "aarch64": ("aarch64", "arm"),
    "armv7l": ("arm",),
    "riscv64": ("riscv64",),
}
"""The ABIs of the programs that run on each machine."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _JUMP, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06, 0x54
_NUMBER, _ABI, _ARGUMENTS, _ARGUMENT_BYTES = 0, 4, 16, 8
_MAX_BRANCH = 255

_ALLOW = 0x7FFF0000
_FAIL = 0x00050000
_NOT_PERMITTED, _NO_SUCH_REQUEST, _NO_SUCH_CALL, _NO_SUCH_FAMILY = _FAIL | 1, _FAIL | 25, _FAIL | 38, _FAIL | 97

_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0x40000, 0x40008, 0xFFFFFFFF)  # 32-bit, old uname, no randomization (gdb)
_CALLS_MAKING_SOCKETS = (1, 8)  # SYS_SOCKET, SYS_SOCKETPAIR
_NEXT_MOUNTS, _PREVIOUS_MOUNTS = 11, 12  # NS_MNT_GET_NEXT, NS_MNT_GET_PREV
_REQUEST_NUMBER, _REQUEST_SIZE = 0xFF, 0x3FFF0000
_LEAST_SIZE = 16 << 16

_compiled: dict[bool, bytes] = {}


def prepare() -> None:
    """Compile the filters once, in the zygote. Raises OSError."""
    machine = os.uname().machine
    if machine in MACHINES:
        _compiled.update({allowed: compiled(machine, user_namespaces=allowed) for allowed in (False, True)})


def install(*, user_namespaces: bool) -> None:
    """Filter the calls of this process and its descendants, irrevocably. Raises OSError."""
    if user_namespaces not in _compiled:
        message = f"there is no list of system calls for {os.uname().machine}: VMs run on {', '.join(MACHINES)}"
        raise OSError(message)
    filter_calls(_compiled[user_namespaces])


def compiled(machine: str, *, user_namespaces: bool) -> bytes:
    """Return the filter as classic BPF. Raises OSError if the list cannot be read."""
    with open(CALL_LIST, encoding="ascii") as file:
        rows = [line.split() for line in file if not line.startswith("#")]
    checks, parts = _checks(user_namespaces=user_namespaces), []
    for abi in MACHINES[machine]:
        column = 2 + list(_ABIS).index(abi)
        numbered = [(int(row[column]), row[0], row[1]) for row in rows if row[column] != "-"]
        calls = {number: _VERDICTS.get(verdict) or checks[call] for number, verdict, call in numbered}
        search = _load(_NUMBER) + _search(_ranges(calls))
        parts += [_load(_ABI), _instruction(_EQUAL, _ABIS[abi], then=1), _jump(search), search]
    return b"".join([*parts, _return(_NO_SUCH_CALL)])


def _checks(*, user_namespaces: bool) -> dict[str, bytes]:
    """Return the code for each call that is decided by its arguments."""
    family = _if_one_of(0, _FAMILIES, _ALLOW, otherwise=_NO_SUCH_FAMILY)
    found = {
        "personality": _if_one_of(0, _PERSONALITIES, _ALLOW, otherwise=_NOT_PERMITTED),
        "socket": family,
        "socketpair": family,
        "socketcall": _if_one_of(0, _CALLS_MAKING_SOCKETS, _NO_SUCH_CALL, otherwise=_ALLOW),
        "clone3": _return(_NO_SUCH_CALL),
        "ioctl": _unless_next_namespace(),
    }
    for call, flags in (("clone", 0), ("unshare", 0), ("setns", 1)):
        found[call] = _if_any_bit(flags, CLONE_NEWUSER, _NOT_PERMITTED, otherwise=_ALLOW)
    if user_namespaces:
        found.update(dict.fromkeys(("clone", "clone3", "unshare", "setns"), _return(_ALLOW)))
    return found


def _ranges(calls: dict[int, bytes]) -> Ranges:
    """Join neighbours with the same code; the first range begins at 0, the last has no end."""
    unlisted = _return(_NO_SUCH_CALL)
    ranges: list[tuple[int, bytes]] = []
    for first in sorted({0, *calls, *(number + 1 for number in calls)}):
        decision = calls.get(first, unlisted)
        if not ranges or ranges[-1][1] != decision:
            ranges.append((first, decision))
    return ranges


def _search(ranges: Ranges) -> bytes:
    """Return a binary search for the range of the loaded number."""
    if len(ranges) == 1:
        return ranges[0][1]
    half = len(ranges) // 2
    low, high = _search(ranges[:half]), _search(ranges[half:])
    first = ranges[half][0]
    if _count(low) > _MAX_BRANCH:
        return _instruction(_AT_LEAST, first, otherwise=1) + _jump(low) + low + high
    return _instruction(_AT_LEAST, first, then=_count(low)) + low + high


def _if_one_of(argument: int, values: Iterable[int], verdict: int, otherwise: int) -> bytes:
    """Decide by the low half of an argument, which is all that the kernel takes of an ``int``."""
    code = _return(otherwise) + _return(verdict)
    for value in values:
        code = _instruction(_EQUAL, value, then=_count(code) - 1) + code
    return _load(_ARGUMENTS + argument * _ARGUMENT_BYTES) + code


def _if_any_bit(argument: int, bits: int, verdict: int, otherwise: int) -> bytes:
    load = _load(_ARGUMENTS + argument * _ARGUMENT_BYTES)
    return load + _instruction(_ANY_BIT, bits, otherwise=1) + _return(verdict) + _return(otherwise)


def _unless_next_namespace() -> bytes:
    """Refuse the requests that lead from a mount namespace to the others which the VM's root owns.

    Those of the service's part of the VM are among them. The first kernels with the requests look at their number and
    size alone; other requests of these numbers are smaller, or of devices that a VM does not have.
    """
    request = _load(_ARGUMENTS + _ARGUMENT_BYTES)
    sized = request + _instruction(_AND, _REQUEST_SIZE) + _instruction(_AT_LEAST, _LEAST_SIZE, then=1)
    decided = _instruction(_EQUAL, _PREVIOUS_MOUNTS, otherwise=_count(sized)) + sized + _return(_ALLOW)
    numbered = request + _instruction(_AND, _REQUEST_NUMBER) + _instruction(_EQUAL, _NEXT_MOUNTS, then=1)
    return numbered + decided + _return(_NO_SUCH_REQUEST)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, offset)


def _return(verdict: int) -> bytes:
    return _instruction(_RETURN, verdict)


def _jump(over: bytes) -> bytes:
    return _instruction(_JUMP, _count(over))


def _count(code: bytes) -> int:
    return len(code) // 8


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; ``then`` and ``otherwise`` are the numbers of instructions to skip."""
    return struct.pack("=HBBI", code, then, otherwise, value)


_VERDICTS = {"allow": _return(_ALLOW), "refuse": _return(_NOT_PERMITTED)}
