"""System calls in each ABI, as an attacker makes them: a program for a VM begins with `CALLS`.

``native``, ``compat`` (32-bit, by ``int 0x80``) and ``x32`` return the kernel's result: a negative number is an error.
``low(data)`` returns the address of a copy that 32-bit calls can reach.
"""

from __future__ import annotations

CALLS = """\
import ctypes, errno, json, mmap, os, platform, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def native(number, *arguments):
    done = libc.syscall(*map(ctypes.c_long, (number, *arguments)))
    return -ctypes.get_errno() if done == -1 else done

def x32(number, *arguments):
    return native(number | 0x40000000, *arguments)

MAP_32BIT = 0x40
pages = []

def low(data):
    pages.append(mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT, prot=7))
    pages[-1].write(data)
    return ctypes.addressof(ctypes.c_char.from_buffer(pages[-1]))

# push rbx; eax, ebx, ecx, edx, esi, edi = the six arguments; int 0x80; pop rbx; ret
CODE = bytes.fromhex("53 89f8 89f3 89cf 89d1 89fa 4489c6 4489cf cd80 5b c3")
enter = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 6)(low(CODE))

def compat(number, *arguments):
    return enter(number, *arguments, *[0] * (5 - len(arguments)))

def named(done):
    return errno.errorcode[-done] if done < 0 else "done"
"""
