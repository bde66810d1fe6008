"""The image of outer layers that are machines: a disk with what boots, and the base image's tree.

What boots is a kernel, its command line and a first root for the launcher as one program of UEFI, made of systemd's
stub. It is in a partition with a small FAT file system, from which a firmware starts it by itself.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import struct
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host.boot import KernelPackage, archive, static_busybox
from actors.vms.incus.outer_images import METADATA, PROGRAMS, launcher_digest, launcher_files, unended_tar
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.vms.host.ids import IdMap


_DISK = "rootfs.img"
_BLOCK_BYTES = 1 << 20


@immutable
class MachineImage:
    """The image of machines; it is made in a folder, with a kernel of the files below ``system``."""

    idmap: IdMap
    system: Path
    folder: Path
    kind: str = "machine"

    def digest(self) -> str:
        """Return a digest of all that is added to the tree. Raises VmError if a part is missing here."""
        return boot_digest(self.system)

    def blocks(self, tree: Path) -> Iterator[bytes]:
        """Yield the image as the engine takes it. Raises VmError."""
        with self._scratch() as folder:
            disk = folder / _DISK
            make_machine_disk(machine_boot(self.system), tree, self.idmap, disk)
            yield unended_tar({"metadata.yaml": METADATA.format(machine=platform.machine())})
            entry = tarfile.TarInfo(_DISK)
            entry.size = disk.stat().st_size
            yield entry.tobuf(tarfile.GNU_FORMAT)
            with disk.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
            yield bytes(-entry.size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Give an empty folder until the end of the block; one that a killed service left goes first."""
        folder = self.folder / "machine-image"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


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


_PACKAGES = {"qemu-img": "qemu-utils", "mke2fs": "e2fsprogs"}
_MB = 1 << 20
_FIRST_BYTE = _MB
_EFI, _LINUX = 0xEF, 0x83
_PARTITION = "<B3sB3sII"
_PARTITIONS_AT = 446
_MEASURE = "du -sxB1 . && du -sx --inodes ."
_FILL = 'exec "$5" -q -F -t ext4 -O ^has_journal -b 4096 -m 0 -N "$2" -E "$3" -d . "$1" "$4"'


def make_machine_disk(boots: bytes, tree: Path, idmap: IdMap, target: Path) -> None:
    """Make a qcow2 image of two partitions: what ``boots``, and the tree's files as ext4. Raises VmError."""
    boot = boot_partition(boots)
    used, inodes = (int(line.split()[0]) for line in _mapped(idmap, tree, _MEASURE).splitlines())
    size = (used + used // 4 + inodes * 512 + 64 * _MB) // _MB * _MB
    start = _FIRST_BYTE + len(boot)
    start += -start % _MB
    with tempfile.NamedTemporaryFile(dir=target.parent) as raw:
        raw.write(_partition_table((_EFI, _FIRST_BYTE, len(boot)), (_LINUX, start, size)))
        raw.seek(_FIRST_BYTE)
        raw.write(boot)
        raw.truncate(start + size)
        raw.flush()
        os.fchmod(raw.fileno(), 0o666)  # for the ids of the tree; the folder above is closed to all others
        options = f"lazy_itable_init=1,nodiscard,root_owner=0:0,offset={start}"
        file = f"/proc/self/fd/{raw.fileno()}"
        _mapped(
            idmap,
            tree,
            _FILL,
            file,
            str(inodes * 2),
            options,
            f"{size // 1024}k",
            disk_program("mke2fs"),
            descriptor=raw.fileno(),
        )
        _run([disk_program("qemu-img"), "convert", "-f", "raw", "-O", "qcow2", raw.name, str(target)])


def disk_program(name: str) -> str:
    """Return the path of a program that makes the disk. Raises VmError."""
    if path := shutil.which(name):
        return path
    message = f"machines on members have no disk without {name}: run `sudo apt-get install -y {_PACKAGES[name]}`"
    raise VmError(message)


def _partition_table(*partitions: tuple[int, int, int]) -> bytes:
    """Return the first sector of a disk with partitions by type, first byte and bytes."""
    entries = (
        struct.pack(_PARTITION, 0, bytes(3), kind, bytes(3), at // _SECTOR, size // _SECTOR)
        for kind, at, size in partitions
    )
    return (bytes(_PARTITIONS_AT) + b"".join(entries)).ljust(_SECTOR - 2, b"\0") + b"\x55\xaa"


def _mapped(idmap: IdMap, tree: Path, script: str, *arguments: str, descriptor: int | None = None) -> str:
    argv = idmap.command(["sh", "-ec", script, "sh", *arguments])
    return _run(argv, tree, () if descriptor is None else (descriptor,))


def _run(argv: list[str], cwd: Path | None = None, descriptors: tuple[int, ...] = ()) -> str:
    done = subprocess.run(argv, cwd=cwd, pass_fds=descriptors, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"the disk of machines cannot be made: {done.stderr.strip()}"
        raise VmError(message)
    return done.stdout


_SECTOR = 512
_CLUSTER = 4096
_CLUSTERS = 16_384
_ROOT_ENTRIES = 512
_END_OF_CHAIN = 0xFFFF
_FOLDER, _FILE = 0x10, 0x20
_FIRST = 2
"""The number of the first cluster; the first two entries of the table are no clusters'."""

_MEDIA = 0xF8
_HEADER = "<3s8sHBHBHHBHHHLLBBBL11s8s"
_ENTRY = "<11sB8xHHHHL"
_EPOCH = 0x21
"""The first day that the file system knows."""


def boot_partition(program: bytes) -> bytes:
    """Return a FAT16 file system of 64 MB with the program where UEFI looks for it.

    Raises ValueError if it is too large.
    """
    clusters = -(-len(program) // _CLUSTER)
    first = _FIRST + 2
    if clusters > _CLUSTERS - 2:
        message = f"a program of {len(program)} bytes is too large for the boot partition"
        raise ValueError(message)
    chain = [_MEDIA | 0xFF00, _END_OF_CHAIN, _END_OF_CHAIN, _END_OF_CHAIN]
    chain += [*range(first + 1, first + clusters), _END_OF_CHAIN]
    table = struct.pack(f"<{len(chain)}H", *chain)
    table_bytes = -(-(_FIRST + _CLUSTERS) * 2 // _SECTOR) * _SECTOR
    efi, boot = _FIRST, _FIRST + 1
    content = [
        _header(table_bytes // _SECTOR),
        table.ljust(table_bytes, b"\0"),
        _entry(b"EFI", _FOLDER, efi).ljust(_ROOT_ENTRIES * 32, b"\0"),
        _folder(efi, 0, _entry(b"BOOT", _FOLDER, boot)),
        _folder(boot, efi, _entry(b"BOOTX64 EFI", _FILE, first, len(program))),
        program,
    ]
    return b"".join(content).ljust(_sectors(table_bytes // _SECTOR) * _SECTOR, b"\0")


def _header(table_sectors: int) -> bytes:
    sectors = _sectors(table_sectors)
    header = struct.pack(
        _HEADER, b"\xeb\x3c\x90", b"MSWIN4.1", _SECTOR, _CLUSTER // _SECTOR, 1, 1, _ROOT_ENTRIES, 0, _MEDIA,
        table_sectors, 63, 255, 0, sectors, 0x80, 0, 0x29, 1, b"CI-DAEMON  ", b"FAT16   ",
    )  # fmt: skip
    return header.ljust(_SECTOR - 2, b"\0") + b"\x55\xaa"


def _sectors(table_sectors: int) -> int:
    return 1 + table_sectors + _ROOT_ENTRIES * 32 // _SECTOR + _CLUSTERS * (_CLUSTER // _SECTOR)


def _folder(own: int, parent: int, entry: bytes) -> bytes:
    return b"".join([_entry(b".", _FOLDER, own), _entry(b"..", _FOLDER, parent), entry]).ljust(_CLUSTER, b"\0")


def _entry(name: bytes, kind: int, cluster: int, size: int = 0) -> bytes:
    return struct.pack(_ENTRY, name.ljust(11), kind, _EPOCH, 0, _EPOCH, cluster, size)


_HEADERS_AT = 0x3C
_SECTION = "<8sIIIIIIHHI"
_SECTION_BYTES = struct.calcsize(_SECTION)
_COFF_BYTES = 24
_PAGE = 4096
_DATA = 0x40000040
"""A section of initialized data that can be read."""


def boot_program(stub: bytes, sections: Mapping[str, bytes]) -> bytes:
    """Return the stub with these sections added, such as ``.cmdline``.

    Raises ValueError if it has no room for them.
    """
    program = bytearray(stub)
    (at,) = struct.unpack_from("<I", program, _HEADERS_AT)
    (count,) = struct.unpack_from("<H", program, at + 6)
    (optional_bytes,) = struct.unpack_from("<H", program, at + 20)
    optional = at + _COFF_BYTES
    (file_align,) = struct.unpack_from("<I", program, optional + 36)
    size_at = optional + 56
    image_bytes, header_bytes = struct.unpack_from("<II", program, size_at)
    entry = optional + optional_bytes + count * _SECTION_BYTES
    if program[:2] != b"MZ" or entry + len(sections) * _SECTION_BYTES > header_bytes:
        message = "the stub of systemd has no room for a kernel"
        raise ValueError(message)
    for name, content in sections.items():
        program += bytes(-len(program) % file_align)
        image_bytes += -image_bytes % _PAGE
        padded = len(content) + -len(content) % file_align
        fields = len(content), image_bytes, padded, len(program), 0, 0, 0, 0, _DATA
        struct.pack_into(_SECTION, program, entry, name.encode(), *fields)
        program += content.ljust(padded, b"\0")
        image_bytes += len(content)
        entry += _SECTION_BYTES
    struct.pack_into("<H", program, at + 6, count + len(sections))
    struct.pack_into("<I", program, size_at, image_bytes + -image_bytes % _PAGE)
    return bytes(program)
