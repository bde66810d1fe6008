"""The kernel: machines have their own; of that of the host, a job may use what `kernel.toml` lists."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from actors.vms.launcher.syscall_filter import CALL_LIST
from tests.vms.contract.conftest import Boot
from tests.vms.contract.hosts import Host
from tests.vms.contract.kernel_uses import CALLS, DEVICES, FILE_SYSTEMS, SOCKETS

LISTED = tomllib.loads(Path(__file__).with_name("kernel.toml").read_text(encoding="utf-8"))
FAMILIES = {1: "unix", 2: "inet", 10: "inet6", 16: "netlink"}
TYPES = {1: "stream", 2: "dgram", 3: "raw", 4: "rdm", 5: "seqpacket", 6: "dccp", 10: "packet"}
TERMINALS = "c 136 "
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def only_listed(used: set[str], promised: Iterable[str], allowed: Iterable[str] = ()) -> None:
    """Assert that all that is promised is used, and nothing that is not listed."""
    assert used - {*promised, *allowed} == set()
    assert {*promised} - used == set()


def sockets(listed: Mapping[str, Iterable[int]]) -> set[str]:
    return {f"{kind} {protocol}" for kind, protocols in listed.items() for protocol in protocols}


@pytest.mark.real
@pytest.mark.essential
def test_a_machine_has_a_kernel_of_its_own(boot: Boot, host: Host):
    hosts_boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert (boot().says(BOOT_ID) != hosts_boot) is host.own_kernel


@pytest.mark.real
@pytest.mark.essential
@pytest.mark.shared_kernel
def test_a_job_mounts_the_listed_file_systems_alone(boot: Boot):
    found = json.loads(boot().python(FILE_SYSTEMS))
    listed = LISTED["file_systems"]
    only_listed(set(found["used"]), set(listed["promised"]) & set(found["there"]), listed["allowed"])


@pytest.mark.real
@pytest.mark.essential
@pytest.mark.shared_kernel
def test_a_job_opens_the_listed_sockets_alone(boot: Boot):
    """Of each family, type and protocol that there may be; a network has the most."""
    used = set()
    for family, kind, protocol in json.loads(boot(network=True).python(SOCKETS))["used"]:
        used.add(f"{FAMILIES.get(family, family)} {TYPES.get(kind, kind)} {protocol}")
    only_listed(used, *map(sockets, (LISTED["sockets"]["promised"], LISTED["sockets"]["allowed"])))


@pytest.mark.real
@pytest.mark.essential
@pytest.mark.shared_kernel
def test_a_job_opens_the_listed_devices_alone(boot: Boot):
    """It can make nodes of no other."""
    found = json.loads(boot().python(DEVICES))
    used = {f"{TERMINALS}*" if device.startswith(TERMINALS) else device for device in found["used"]}
    only_listed(used, LISTED["devices"]["promised"], LISTED["devices"]["allowed"])
    assert found["made"] == []


@pytest.mark.real
@pytest.mark.essential
@pytest.mark.shared_kernel
def test_a_job_makes_the_listed_system_calls_alone(boot: Boot):
    """By the VM's own filter, of all numbers in each ABI of the machine."""
    found = json.loads(boot().python(CALLS))
    lines = Path(CALL_LIST).read_text(encoding="ascii").splitlines()
    columns = next(line for line in lines if line.startswith("#       call")).split()
    rows = [dict(zip(columns, line.split(), strict=True)) for line in lines if not line.startswith("#")]
    for way, used in found["used"].items():
        if way == "x32":
            assert used == []
            continue
        column = found["machine"] if way == "" else way
        calls = {int(row[column]): row["call"] for row in rows if row[column] != "-"}
        promised = set(LISTED["calls"]["promised"].split()) & set(calls.values())
        only_listed({calls.get(number, f"number {number}") for number in used}, promised)
