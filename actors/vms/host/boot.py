"""The kernel and first root that machines boot from, made once for each release of both.

The kernel is found on the host, with the drivers of a machine's disks and network. The first root is an archive in the
kernel's format (cpio, "newc") with busybox, the drivers and the launcher, which is the service's own code. It loads the
drivers and starts PID 1 (``launcher/machine_guest.py``) on the base image's disk, by that image's python.
"""

from __future__ import annotations

import hashlib
import importlib.util
import lzma
import os
import py_compile
import re
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import launcher
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@immutable
class BootFiles:
    """A kernel and the archive of its first root."""

    kernel: Path
    initramfs: Path

    @classmethod
    def make(cls, folder: Path, system: Path) -> BootFiles:
        """Make both in ``folder``, unless they are there, from the newest kernel of ``system``.

        Raises VmError.
        """
        package = KernelPackage.newest(system)
        folder.mkdir(exist_ok=True)
        initramfs = make_initramfs(package)
        digest = hashlib.sha256(initramfs).hexdigest()[:16]
        made = cls(folder / f"{package.release}.kernel", folder / f"{package.release}-{digest}.initramfs")
        if not made.kernel.exists():
            _write(made.kernel, package.image.read_bytes())
        if not made.initramfs.exists():
            _write(made.initramfs, initramfs)
        for outdated in set(folder.iterdir()) - {made.kernel, made.initramfs}:  # running machines have theirs open
            outdated.unlink(missing_ok=True)
        return made


def _write(path: Path, content: bytes) -> None:
    """Write a file that QEMU, an ordinary user, may read: through a descriptor, for its folder is closed."""
    unfinished = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    unfinished.write_bytes(content)
    unfinished.chmod(0o644)
    unfinished.rename(path)


TRIAL = "ci_daemon_trial"
"""The word on the kernel's command line that lets the machine say that it is ready, and end."""

_INIT = """\
#!/busybox sh
PATH=/bin
/busybox mkdir -p /bin /proc /dev /disk /root
/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
case $(cat /proc/cmdline) in *@TRIAL@*) echo "ci-daemon: ready"; poweroff -f ;; esac
for module in @MODULES@; do insmod /modules/$module || exit; done
ip link set lo up
ip address add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2 || exit
mount -t ext4 -o ro /dev/vda /disk && mount -o bind /disk/root /root || exit
for kind in proc sysfs devtmpfs; do
    place=$kind
    case $kind in sysfs) place=sys ;; devtmpfs) place=dev ;; esac
    mount -t $kind $kind /root/$place || exit
done
mkdir -p /root/dev/pts && mount -t devpts -o ptmxmode=666,mode=620,gid=5 devpts /root/dev/pts || exit
mount -t tmpfs -o mode=755 run /root/run && mount -t tmpfs -o mode=1777 tmp /root/tmp || exit
cp -r /launcher /root/run/
umount /proc
exec switch_root -c /dev/console /root /usr/bin/python3 -I -S -B -c \\
    'import sys; sys.path[:0] = ["/run"]; from launcher.machine_guest import main; main()'
"""


def make_initramfs(kernel: KernelPackage) -> bytes:
    """Return the archive for a kernel. Raises VmError if the host lacks busybox."""
    drivers = kernel.drivers()
    script = _INIT.replace("@TRIAL@", TRIAL).replace("@MODULES@", " ".join(name for name, _ in drivers))
    files = {"init": script.encode(), "busybox": static_busybox().read_bytes()}
    files |= {f"modules/{name}": content for name, content in drivers}
    return archive(files | _launcher(), ["dev", "proc", "bin", "disk", "root"])


def _launcher() -> dict[str, bytes]:
    """Return the files of the launcher, also compiled, which saves a guest with the same python a second."""
    here = Path(launcher.__file__).parent
    sources = sorted(here.rglob("*.py"))
    with tempfile.TemporaryDirectory() as folder:
        compiled = {}
        for path in sources:
            made, mode = Path(folder, "compiled"), py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(path), str(made), path.name, doraise=True, invalidation_mode=mode)
            compiled[Path(importlib.util.cache_from_source(str(path)))] = made.read_bytes()
    files = {path: path.read_bytes() for path in sources} | compiled
    return {f"launcher/{path.relative_to(here)}": content for path, content in files.items()}


def static_busybox() -> Path:
    """Return the path of a busybox that needs no libraries. Raises VmError."""
    path = shutil.which("busybox")
    if path is None or b"/ld-linux" in Path(path).read_bytes()[:4096]:  # the interpreter of what is linked dynamically
        message = "machines boot by a static busybox: run `sudo apt-get install -y busybox-static`"
        raise VmError(message)
    return Path(path)


MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
"""The drivers that a machine needs, unless they are built in."""

_DEPENDS = re.compile(rb"(?<![^\0])depends=([^\0]*)\0")
_NUMBERS = re.compile(r"\d+")


@immutable
class KernelPackage:
    """A kernel that boots directly, and the folder of its modules."""

    image: Path
    modules: Path

    @classmethod
    def newest(cls, system: Path, driver: str | None = None) -> KernelPackage:
        """Find the newest readable kernel below ``system`` that has its modules and a ``driver``.

        Raises VmError.
        """
        found = [
            cls(image, modules)
            for image in (system / "boot").glob("vmlinuz-*")
            for modules in [system / "lib" / "modules" / image.name.removeprefix("vmlinuz-")]
            if os.access(modules, os.R_OK | os.X_OK) and _readable(image)
            if driver is None or any(modules.rglob(f"{driver}.ko*"))
        ]
        if not found:
            package = "linux-image-cloud-amd64" if driver is None else "linux-image-amd64"
            message = (
                f"machines need a kernel, and {system / 'boot'} has none that can be read, with its modules"
                f"{'' if driver is None else f' and {driver} among them'}: "
                f"run `sudo apt-get install -y --no-install-recommends {package}`"
            )
            raise VmError(message)
        return max(found, key=lambda each: [int(number) for number in _NUMBERS.findall(each.image.name)])

    @property
    def release(self) -> str:
        """The kernel's release, such as 6.1.0-50-cloud-amd64."""
        return self.modules.name

    def drivers(self, modules: Iterable[str] = MODULES) -> list[tuple[str, bytes]]:
        """Return the modules to load for these, in order, by name and content. Raises VmError."""
        files = {
            path.name.partition(".")[0].replace("-", "_"): path
            for path in self.modules.rglob("*.ko*")
        }  # fmt: skip
        loaded: dict[str, bytes] = {}

        def load(name: str) -> None:
            if name in loaded or name not in files:  # what has no file is built in
                return
            content = _content(files[name])
            depends = _DEPENDS.search(content)
            for each in depends[1].decode().replace("-", "_").split(",") if depends else ():
                load(each)
            loaded[name] = content

        for name in modules:
            load(name)
        return list(loaded.items())


def _readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _content(path: Path) -> bytes:
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case suffix:
            message = f"{path} is packed as {suffix}, which cannot be read here: set qemu.system to another kernel's"
            raise VmError(message)


_FOLDER, _FILE = 0o040755, 0o100755


def archive(files: Mapping[str, bytes], folders: Iterable[str] = ()) -> bytes:
    """Return an archive of files, by relative path, which root may execute, and of their and more folders."""
    parents = {parent for path in (*files, *folders) for parent in _parents(path)}
    entries = [(path, _FOLDER, b"") for path in sorted({*parents, *folders})]
    entries += [(path, _FILE, content) for path, content in files.items()]
    packed = [_entry(number, *entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*packed, _entry(0, "TRAILER!!!", 0, b"")])


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[: end + 1]) for end in range(len(parts)))


def _entry(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
