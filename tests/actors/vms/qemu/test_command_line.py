"""The command line of QEMU: its devices, its files, and how it is confined."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms.qemu.command_line import Machine, command_line, files
from storage import Shape

MACHINE = Machine(
    program="/usr/bin/qemu",
    kvm=False,
    shape=Shape(cpu=3, memory_gb=5, disk_gb=7),
    network=True,
    kernel=Path("/k"),
    initramfs=Path("/i"),
    base=Path("/base"),
    layers=[Path("/own"), Path("/parent"), Path("/image")],
    seed=Path("/seed"),
)


def values(machine: Machine, option: str) -> list[str]:
    argv = command_line(machine)
    return [argv[place + 1] for place, word in enumerate(argv) if word == option]


def test_a_machine_has_three_disks_and_a_network_card_alone():
    devices = [device.partition(",")[0] for device in values(MACHINE, "-device")]
    assert devices == ["virtio-blk-pci"] * 3 + ["virtio-net-pci"]
    assert "-nodefaults" in command_line(MACHINE)
    assert not {"-vnc", "-fsdev", "-virtfs", "-usb", "-qmp"} & set(command_line(MACHINE))


def test_qemu_may_neither_start_programs_nor_gain_privileges():
    (sandbox,) = values(MACHINE, "-sandbox")
    assert sandbox == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


def test_qemu_gets_the_shape_of_the_job():
    assert (values(MACHINE, "-smp"), values(MACHINE, "-m")) == (["3"], ["5G"])


def test_only_the_jobs_own_layer_is_writable():
    assert [str(file.path) for file in files(MACHINE) if file.writable] == ["/own"]
    disks = {disk["node-name"]: disk for disk in map(json.loads, values(MACHINE, "-blockdev"))}
    assert [disk["read-only"] for disk in disks.values()] == [True, False, True]
    below = disks["job"]["backing"]
    assert (below["read-only"], below["backing"]["read-only"]) == (True, True)


def test_qemu_opens_no_file_of_the_host_by_its_name():
    argv = " ".join(command_line(MACHINE))
    assert not any(str(file.path) + " " in argv for file in files(MACHINE))
    (job,) = [disk for disk in map(json.loads, values(MACHINE, "-blockdev")) if disk["node-name"] == "job"]
    order = [str(file.path) for file in files(MACHINE)]
    chain = [job, job["backing"], job["backing"]["backing"]]
    numbers = [int(each["file"]["filename"].removeprefix("/dev/fdset/")) - 100 for each in chain]
    assert [order[number] for number in numbers] == ["/own", "/parent", "/image"]


@pytest.mark.parametrize(("network", "restrict"), [(True, "restrict=off"), (False, "restrict=on")])
def test_a_machine_without_a_network_reaches_nothing(network: bool, restrict: str):
    (netdev,) = values(replace(MACHINE, network=network), "-netdev")
    assert restrict in netdev.split(",")


def test_kvm_is_used_where_it_works():
    assert values(replace(MACHINE, kvm=True), "-accel") == ["kvm"]
    assert values(MACHINE, "-accel")[0].startswith("tcg")
