"""The disk of the engine's machines: a firmware boots it, and the launcher starts the agent."""

from __future__ import annotations

import marshal
import shlex
import subprocess
import tarfile
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest

from actors.vms import ImageStore, VmError
from actors.vms.host import IdMap
from actors.vms.host.vm_folder import KeyPair
from actors.vms.incus.instances import makes_machines
from actors.vms.incus.launch import keys_of, program_argv
from actors.vms.incus.machines import MachineImage, boot_partition, boot_program, machine_kernel
from actors.vms.incus.outer_layers import Bridge
from tests.machines import unpacked_kernel, unpacked_member_kernel
from tests.vms.contract.hosts import IMAGE, PROCESSES

_SECONDS = 600
_FIRMWARE = "usr/share/OVMF/OVMF_{}_4M.fd"
_AGENT = """\
#!/bin/sh
exec >/dev/console 2>&1
echo "agent: $(id -u) $(ls -d /run/ci-daemon/door) $(ls /dev/virtio-ports) $(ls /sys/class/net | tr '\\n' ' ')"
touch /written || echo "agent: the base image cannot be changed"
cd /run/ci-daemon/agent
echo "agent: the VM is $({boot} <keys)"
echo "agent: OOM score $(cat /proc/self/oom_score_adj), of init $(cat /proc/1/oom_score_adj)"
{end} </dev/null
"""


@pytest.mark.timeout(_SECONDS)
def test_a_firmware_boots_the_disk_up_to_the_engines_agent(image_store: ImageStore, idmap: IdMap, tmp_path: Path):
    """The agent comes by a share of the engine's; here it is a program that tells what it finds."""
    image = MachineImage(idmap, unpacked_member_kernel(), tmp_path)
    with (tmp_path / "image.tar").open("wb") as whole:
        whole.writelines(image.blocks(image_store.path(IMAGE)))
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert tar.getnames() == ["metadata.yaml", "rootfs.img"]
        tar.extract("rootfs.img", tmp_path, filter="data")
    (tmp_path / "share").mkdir()
    (tmp_path / "share/keys").write_bytes(marshal.dumps(keys()))
    agent = _AGENT.format(**{name: shlex.join(program_argv(name)) for name in ("boot", "end")})
    (tmp_path / "share/incus-agent").write_text(agent)
    (tmp_path / "share/incus-agent").chmod(0o755)
    console = booted(tmp_path)
    assert "agent: 0 /run/ci-daemon/door org.linuxcontainers.incus eth0 lo" in console, console
    assert "agent: the base image cannot be changed" in console, console
    assert "agent: the VM is ready" in console, console
    assert "agent: OOM score 0, of init 990" in console, "a job that fills the memory may end the agent"
    assert "panic" not in console, console
    assert "agent:" not in booted(tmp_path), "a machine whose kernel has panicked seems to be its VM, without keys"


def keys() -> dict[str, Any]:
    """Return what the service brings to a VM with a network."""
    network = Bridge("ci", IPv4Interface("10.77.0.1/24"), ()).settings("10.77.0.5")
    return keys_of(KeyPair.make(), KeyPair.make(), PROCESSES, network, user_namespaces=True)


def booted(folder: Path) -> str:
    """Boot as the engine does, but without KVM, until the machine is off; return the console's text."""
    code, variables = (unpacked_member_kernel() / _FIRMWARE.format(part) for part in ("CODE", "VARS"))
    (folder / "variables").write_bytes(variables.read_bytes())
    devices = (
        "virtio-scsi-pci",
        "scsi-hd,drive=disk,bootindex=0",
        "virtio-9p-pci,mount_tag=config,fsdev=config",
        "virtio-serial-pci",
        "virtserialport,name=org.linuxcontainers.incus,chardev=agent",
        "virtio-net-pci,netdev=none",
    )
    argv = [
        "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1G", "-serial", "stdio",
        "-drive", f"if=pflash,format=raw,readonly=on,file={code}",
        "-drive", f"if=pflash,format=raw,file={folder / 'variables'}",
        "-drive", f"if=none,id=disk,format=qcow2,file={folder / 'rootfs.img'}",
        "-fsdev", f"local,id=config,path={folder / 'share'},security_model=none,readonly=on",
        "-chardev", "ringbuf,id=agent,size=16", "-netdev", "user,id=none,restrict=on",
        *(each for device in devices for each in ("-device", device)),
    ]  # fmt: skip
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="replace")


def test_a_kernel_without_the_engines_share_is_refused():
    with pytest.raises(VmError, match=r"9p.*linux-image-amd64"):
        machine_kernel(unpacked_kernel())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="too large for the boot partition"):
        boot_partition(bytes(64 << 20))
    stub = (unpacked_member_kernel() / "usr/lib/systemd/boot/efi/linuxx64.efi.stub").read_bytes()
    with pytest.raises(ValueError, match="no room"):
        boot_program(stub, {f".{number}": b"" for number in range(100)})


@pytest.mark.parametrize(
    ("environment", "made"),
    [
        ({"server": "incus", "driver": "lxc | qemu"}, True),
        ({"server": "incus", "driver": "lxc"}, False),
        ({"server": "incus"}, False),
        ({"server": "lxd", "driver": "lxc | qemu"}, False),
    ],
)
def test_incus_with_kvm_alone_makes_machines(environment: dict[str, str], made: bool):
    assert makes_machines(environment) is made
