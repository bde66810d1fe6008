"""The program that a machine of the engine boots: a kernel, and a first root for the launcher."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host.boot import KernelPackage, archive, static_busybox
from actors.vms.incus.machines.boot_program import boot_program
from actors.vms.incus.tarballs import PROGRAMS, launcher_digest, launcher_files
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STUB = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
_SHARE = "9p"
"""The driver of the file system by which the engine brings its agent; kernels for clouds lack it."""

_MODULES = (
    "virtio_pci",
    "virtio_scsi",
    "sd_mod",
    "virtio_net",
    "virtio_console",
    "crc32c_generic",
    "ext4",
    "vmw_vsock_virtio_transport",
    "virtiofs",
    "nf_tables",
    "nft_reject_ipv4",
    "nft_reject_ipv6",
    "nft_reject_inet",
    "9pnet_virtio",
    _SHARE,
)
_COMMAND_LINE = "console=ttyS0 quiet panic=-1"
_INIT = """\
#!/busybox sh
PATH=/bin
/busybox mkdir -p /bin /proc /dev /root
/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
for module in @MODULES@; do insmod /modules/$module || exit; done
while [ ! -b /dev/sda2 ]; do sleep 0.02; done
mount -t ext4 /dev/sda2 /root || exit
[ ! -e /root@PROGRAMS@ ] || { echo o >/proc/sysrq-trigger; sleep 10; exit; }
mkdir -p /root@PROGRAMS@ && cp -r /launcher /root@PROGRAMS@/ && mount -o remount,ro /root || exit
for kind in proc sysfs devtmpfs; do
    place=$kind
    case $kind in sysfs) place=sys ;; devtmpfs) place=dev ;; esac
    mount -t $kind $kind /root/$place || exit
done
mkdir -p /root/dev/pts /root/dev/shm /root/dev/virtio-ports
mount -t devpts -o ptmxmode=666,mode=620,gid=5 devpts /root/dev/pts || exit
mount -t tmpfs -o mode=1777 shm /root/dev/shm && mount -t tmpfs -o mode=1777 tmp /root/tmp || exit
for port in /root/sys/class/virtio-ports/*; do
    [ -e $port/name ] && ln -s ../${port##*/} "/root/dev/virtio-ports/$(cat $port/name)"
done
ip link set lo up
umount /proc
exec switch_root -c /dev/console /root /usr/bin/python3 -I -S -B -c \\
    'import sys; sys.path[:0] = ["@PROGRAMS@"]; from launcher.container_guest import main; main(agent=True)'
"""


def boot_digest(system: Path) -> str:
    """Return a digest of all that the program is made of. Raises VmError if a part of it is missing."""
    made_of = machine_kernel(system).release, str(efi_stub(system)), _INIT, _MODULES, _COMMAND_LINE
    return hashlib.sha256(repr((made_of, launcher_digest())).encode()).hexdigest()


def machine_kernel(system: Path) -> KernelPackage:
    """Return the newest kernel of ``system`` with all drivers of machines. Raises VmError."""
    return KernelPackage.newest(system, _SHARE)


def efi_stub(system: Path) -> Path:
    """Return the part of systemd by which a firmware starts a kernel. Raises VmError.

    It is below ``system`` or on this host.
    """
    for path in (system / _STUB, Path("/") / _STUB):
        if path.exists():
            return path
    message = "machines on members boot by a part of systemd: run `sudo apt-get install -y systemd-boot-efi`"
    raise VmError(message)


def machine_boot(system: Path) -> bytes:
    """Return the program, of the newest kernel of ``system``. Raises VmError if a part of it is missing."""
    kernel = machine_kernel(system)
    drivers = kernel.drivers(_MODULES)
    script = _INIT.replace("@MODULES@", " ".join(name for name, _ in drivers)).replace("@PROGRAMS@", PROGRAMS)
    files: Mapping[str, bytes] = {
        "init": script.encode(),
        "busybox": static_busybox().read_bytes(),
        **{f"modules/{name}": content for name, content in drivers},
        **{name: text.encode() for name, text in launcher_files().items()},
    }
    first_root = archive(files, ["dev", "proc", "bin", "root"])
    sections = {
        ".cmdline": _COMMAND_LINE.encode() + b"\0",
        ".linux": kernel.image.read_bytes(),
        ".initrd": first_root,
    }
    return boot_program(efi_stub(system).read_bytes(), sections)
