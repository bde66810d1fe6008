"""The filter of each machine type, interpreted in Python, and its call numbers against libseccomp's."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.vms.launcher import syscall_filter

ABIS = {"x86_64": 0xC000003E, "i386": 0x40000003, "aarch64": 0xC00000B7, "arm": 0x40000028, "riscv64": 0xC00000F3}
MACHINES = {"x86_64": ("x86_64", "i386"), "aarch64": ("aarch64", "arm"), "armv7l": ("arm",), "riscv64": ("riscv64",)}
PAIRS = [(machine, abi) for machine, abis in MACHINES.items() for abi in abis]

ALLOW, EPERM, ENOTTY, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x50001, 0x50019, 0x50026, 0x50061
LOAD, EQUAL, AT_LEAST, ANY_BIT, JUMP, RETURN, AND = 0x20, 0x15, 0x35, 0x45, 0x05, 0x06, 0x54
LEAST_KNOWN = 250
"""The fewest calls of an ABI that both the list and a current libseccomp know."""


def numbers(abi: str) -> dict[str, int]:
    """Return the numbers of an ABI's listed calls, by name."""
    lines = Path(syscall_filter.CALL_LIST).read_text(encoding="ascii").splitlines()
    header, *rows = [line.split() for line in lines if line.startswith("#       call") or line[0] != "#"]
    return {row[1]: int(row[header.index(abi)]) for row in rows if row[header.index(abi)] != "-"}


def verdict(program: bytes, abi: int, number: int, *arguments: int) -> int:
    """Run a filter on one call; return its verdict."""
    data = struct.pack("=II8x6Q", number, abi, *arguments, *[0] * (6 - len(arguments)))
    place = loaded = 0
    while True:
        code, then, otherwise, value = struct.unpack_from("=HBBI", program, place * 8)
        place += 1
        if code == RETURN:
            return int(value)
        if code == LOAD:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == AND:
            loaded &= value
        elif code == JUMP:
            place += value
        else:
            holds = {EQUAL: loaded == value, AT_LEAST: loaded >= value, ANY_BIT: bool(loaded & value)}[code]
            place += then if holds else otherwise


@pytest.mark.parametrize(("machine", "abi"), PAIRS)
def test_unlisted_calls_fail_with_enosys(machine: str, abi: str) -> None:
    program = syscall_filter.compiled(machine, user_namespaces=False)
    listed = set(numbers(abi).values())
    strange = [number for number in [*range(600), 983_041, 0x40000000, 0x40000029, 0xFFFFFFFF] if number not in listed]
    assert {verdict(program, ABIS[abi], number, 1, 1) for number in strange} == {ENOSYS}
    others = set(ABIS.values()) - {ABIS[each] for each in MACHINES[machine]}
    assert {verdict(program, other, number, 1) for other in others for number in range(450)} == {ENOSYS}


@pytest.mark.parametrize(("machine", "abi"), PAIRS)
def test_listed_calls_get_the_verdict_of_the_list(machine: str, abi: str) -> None:
    program, number = syscall_filter.compiled(machine, user_namespaces=False), numbers(abi)
    assert {verdict(program, ABIS[abi], number[name]) for name in ("read", "execve", "mount", "ptrace")} == {ALLOW}
    assert {verdict(program, ABIS[abi], number[name]) for name in ("keyctl", "add_key", "request_key")} == {EPERM}
    assert {verdict(program, ABIS[abi], number[name]) for name in ("bpf", "perf_event_open", "reboot")} == {EPERM}
    for call in ("socket", "socketpair"):
        families = {family: verdict(program, ABIS[abi], number[call], family, 1) for family in range(64)}
        assert [family for family, action in families.items() if action == ALLOW] == [1, 2, 10, 16]
        assert set(families.values()) == {ALLOW, EAFNOSUPPORT}
    if "socketcall" in number:
        multiplexed = [verdict(program, ABIS[abi], number["socketcall"], call) for call in range(1, 21)]
        assert [call for call, action in enumerate(multiplexed, start=1) if action != ALLOW] == [1, 8]


@pytest.mark.parametrize(("machine", "abi"), PAIRS)
@pytest.mark.parametrize("allowed", [False, True])
def test_user_namespaces_are_as_the_owner_says(machine: str, abi: str, *, allowed: bool) -> None:
    program, number = syscall_filter.compiled(machine, user_namespaces=allowed), numbers(abi)
    user, others = 0x10000000, 0x6E020000
    nested = ALLOW if allowed else EPERM
    assert verdict(program, ABIS[abi], number["clone"], user | 17) == nested
    assert verdict(program, ABIS[abi], number["unshare"], user | others) == nested
    assert verdict(program, ABIS[abi], number["setns"], 3, user) == nested
    assert verdict(program, ABIS[abi], number["clone3"]) == (ALLOW if allowed else ENOSYS)
    assert verdict(program, ABIS[abi], number["clone"], others | 17) == ALLOW
    assert verdict(program, ABIS[abi], number["unshare"], others) == ALLOW


@pytest.mark.parametrize("abi", ABIS)
def test_numbers_are_those_that_libseccomp_knows(abi: str) -> None:
    """libseccomp lacks newer calls, and numbers the calls of ``socketcall`` and ``ipc`` its own way."""
    resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    known = {name: resolve(ctypes.c_uint32(ABIS[abi]), name.encode()) for name in numbers(abi)}
    agreed = {name: number for name, number in numbers(abi).items() if known[name] >= 0}
    assert {name: known[name] for name in agreed} == agreed
    assert len(agreed) > LEAST_KNOWN
    assert len(set(numbers(abi).values())) == len(numbers(abi))


def test_without_a_call_list_for_the_machine_no_vm_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    syscall_filter.prepare()
    with pytest.raises(OSError, match="no list of system calls for vax: VMs run on x86_64, aarch64"):
        syscall_filter.install(user_namespaces=False)


@pytest.mark.parametrize("user_namespaces", [False, True])
@pytest.mark.parametrize(("machine", "abi"), PAIRS)
def test_no_request_leads_to_other_mount_namespaces(machine: str, abi: str, user_namespaces: bool) -> None:
    """Kernels without a check of their own look at the request's number and size alone."""
    program, number = syscall_filter.compiled(machine, user_namespaces=user_namespaces), numbers(abi)["ioctl"]

    def verdict_on(request: int) -> int:
        return verdict(program, ABIS[abi], number, 3, request)

    sizes = (16, 24, 64, 4096, 0x3FFF)
    leading = [way << 30 | size << 16 | kind | each for way in range(4) for size in sizes for kind in (0xB700, 0)
               for each in (11, 12)]  # fmt: skip
    assert {verdict_on(request) for request in leading} == {ENOTTY}
    terminals = [0x5401, 0x540B, 0x540C, 0x5413, 0x5414, 0x541B, 0x5421]
    namespaces = [0xB701, 0xB703, 0x8010B70A, 0x8008B705]
    assert {verdict_on(request) for request in [*terminals, *namespaces, 0x8004540B, 0xC0189436]} == {ALLOW}
    assert not {"listmount", "statmount"} & numbers(abi).keys()
