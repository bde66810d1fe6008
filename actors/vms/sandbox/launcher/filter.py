"""What no process of a VM gets from the kernel: sockets that know no network namespace, such as those of ``AF_VSOCK``.

They lead to the host, to its hypervisor and to every other VM, whatever network a VM has. io_uring is refused because
it makes sockets without a call that could be looked at. Nor can ``socketcall`` be looked into, of the 32-bit calls of
x86, but all sockets of 32-bit programs are made by it, so it is let through.
"""

from __future__ import annotations

import os
import struct

from .kernel import filter_calls

_FAMILIES = (
    32,  # AF_IUCV
    34,  # AF_ISDN
    40,  # AF_VSOCK
    42,  # AF_QIPCRTR
)
_ALLOW = 0x7FFF0000
_NO_SUCH_FAMILY = 0x00050000 | 97  # EAFNOSUPPORT
_NO_SUCH_CALL = 0x00050000 | 38  # ENOSYS
_X86_64, _I386, _X32 = 0xC000003E, 0x40000003, 0x40000000
_AARCH64, _ARM, _RISCV64 = 0xC00000B7, 0x40000028, 0xC00000F3
_IO_URING = 425
_RULES = {
    "x86_64": (
        (_X86_64, 41, _FAMILIES, _NO_SUCH_FAMILY),
        (_X86_64, 41 | _X32, _FAMILIES, _NO_SUCH_FAMILY),
        (_I386, 359, _FAMILIES, _NO_SUCH_FAMILY),
        (_X86_64, _IO_URING, (), _NO_SUCH_CALL),
        (_X86_64, _IO_URING | _X32, (), _NO_SUCH_CALL),
        (_I386, _IO_URING, (), _NO_SUCH_CALL),
    ),
    "aarch64": (
        (_AARCH64, 198, _FAMILIES, _NO_SUCH_FAMILY),
        (_ARM, 281, _FAMILIES, _NO_SUCH_FAMILY),
        (_AARCH64, _IO_URING, (), _NO_SUCH_CALL),
        (_ARM, _IO_URING, (), _NO_SUCH_CALL),
    ),
    "riscv64": ((_RISCV64, 198, _FAMILIES, _NO_SUCH_FAMILY), (_RISCV64, _IO_URING, (), _NO_SUCH_CALL)),
}
"""For each machine: the ABI of a call, its number, the first arguments with which it is refused (or all), and how."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ABI, _FIRST_ARGUMENT = 0, 4, 16


def refuse_other_sockets() -> None:
    """Have this process and all that come from it be refused them. Raises OSError."""
    rules = _RULES.get(os.uname().machine, ())
    if rules:
        filter_calls(b"".join(_checks(*rule) for rule in rules) + _instruction(_RETURN, _ALLOW))


def _checks(abi: int, call: int, arguments: tuple[int, ...], verdict: int) -> bytes:
    """Return the part of the filter for one call, which ends in the verdict or behind itself."""
    tests = [_instruction(_LOAD, _FIRST_ARGUMENT)] if arguments else []
    for left, argument in reversed(list(enumerate(reversed(arguments)))):
        tests.append(_instruction(_EQUAL, argument, then=left, otherwise=0 if left else 1))
    length = len(tests) + 1
    return b"".join((
        _instruction(_LOAD, _ABI),
        _instruction(_EQUAL, abi, otherwise=length + 2),
        _instruction(_LOAD, _NUMBER),
        _instruction(_EQUAL, call, otherwise=length),
        *tests,
        _instruction(_RETURN, verdict),
    ))  # fmt: skip


def _instruction(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; ``then`` and ``otherwise`` are how many to pass over."""
    return struct.pack("=HBBI", code, then, otherwise, value)
