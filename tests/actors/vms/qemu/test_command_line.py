"""The command line of QEMU: its devices, its files, and how it is confined."""

from __future__ import annotations

import json

from actors.vms.qemu.program import command_line

PROGRAM = "/usr/bin/qemu"


def values(option: str, *, kvm: bool = False) -> list[str]:
    argv = command_line(PROGRAM, kvm=kvm)
    return [argv[place + 1] for place, word in enumerate(argv) if word == option]


def test_a_parked_machine_has_a_card_two_disks_and_two_slots():
    devices = [device.partition(",")[0] for device in values("-device")]
    assert devices == ["virtio-blk-pci", "virtio-blk-pci", "pcie-root-port", "pcie-root-port", "virtio-net-pci"]
    assert "-nodefaults" in command_line(PROGRAM, kvm=False)
    (board,) = values("-machine")
    assert {"usb=off", "smbus=off", "sata=off", "i8042=off", "smm=off", "vmport=off"} <= set(board.split(","))
    assert not {"-vnc", "-fsdev", "-virtfs", "-usb", "-qmp"} & set(command_line(PROGRAM, kvm=False))


def test_qemu_may_neither_start_programs_nor_gain_privileges():
    (sandbox,) = values("-sandbox")
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


def test_a_parked_machine_is_small_and_has_room_for_a_shape():
    assert values("-smp") == ["cpus=1,maxcpus=64"]
    assert values("-m") == ["size=1G,slots=2,maxmem=256G"]


def test_qemu_opens_no_file_of_the_host_by_its_name():
    """It may write to none of them."""
    disks = [json.loads(disk) for disk in values("-blockdev")]
    assert [disk["file"]["filename"] for disk in disks] == ["/dev/fdset/102", "/dev/fdset/103"]
    assert all(disk["read-only"] and disk["file"]["read-only"] for disk in disks)
    assert {*values("-kernel"), *values("-initrd")} == {"/proc/self/fd/100", "/proc/self/fd/101"}


def test_kvm_is_used_where_it_works():
    assert values("-accel", kvm=True) == ["kvm"]
    assert values("-accel")[0].startswith("tcg")
