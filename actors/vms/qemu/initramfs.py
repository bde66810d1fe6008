"""The first root of a machine, which loads drivers and starts PID 1 on the base image's disk.

It holds busybox, the drivers and the launcher, which is the service's own code. PID 1 (``launcher/machine_guest.py``)
runs by the base image's python.
"""

from __future__ import annotations

import importlib.util
import py_compile
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import launcher
from actors.vms.provider import VmError
from actors.vms.qemu.cpio import archive

if TYPE_CHECKING:
    from actors.vms.qemu.kernel_package import KernelPackage

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
