"""The process of QEMU: an ordinary user with a root of its own, and the disks as descriptors."""

from __future__ import annotations

import os
import resource

from .. import kernel
from ..trees import make_directory, mount_devices, mount_processes, write_file

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

FIRST_FILE = 100
"""The number of the first of QEMU's descriptors; its command line names them."""

_ID = 65_534
"""The id that QEMU runs under: in a sandbox it is nobody's."""

_PROGRAMS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
_LOADER = ("ld.so.cache",)
_OPEN_FILES = 4096
_OOM_SCORE = 1000


def start(spec: dict[str, Any], files: list[int], log: int, root: str) -> tuple[int, int]:
    """Start QEMU with these files; return its id, and the end of a pipe that has its standard output.

    ``root`` is an empty folder, in which its root is made.
    """
    output, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(output)
            _execute(spec, files, log, theirs, root)
        except OSError as error:
            os.write(log, f"{error}\n".encode())
        finally:
            os._exit(127)
    os.close(theirs)
    return pid, output


def _execute(spec: dict[str, Any], files: list[int], log: int, output: int, root: str) -> NoReturn:
    kernel.restore_signals()
    kernel.unshare(kernel.CLONE_NEWNS)
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % _OOM_SCORE)
    _enter_root(root, spec["devices"], spec["resolver"])
    null = os.open("/dev/null", os.O_RDWR)
    for number, descriptor in enumerate((null, output, log)):
        os.dup2(descriptor, number)
    above = FIRST_FILE + len(files)
    copies = [os.dup(each) for each in files]
    if copies and max(copies) >= FIRST_FILE:
        message = "this process has too many open files"
        raise OSError(message)
    for number, copy in enumerate(copies, FIRST_FILE):
        os.dup2(copy, number)
    os.closerange(3, FIRST_FILE)
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # QEMU has no capability anyway, and its filter comes with no_new_privs, so nothing it executes could gain one. This
    # holds in the moment before that, too.
    kernel.bound_capabilities(())
    os.setgroups([])
    os.setresgid(_ID, _ID, _ID)
    os.setresuid(_ID, _ID, _ID)
    os.execve(spec["argv"][0], spec["argv"], {"PATH": "/usr/bin:/bin"})  # noqa: S606 - fixed by the service


def _enter_root(root: str, devices: list[str], resolver: str) -> None:
    """Make a root of the host's programs, read-only, without any other file of the host."""
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    for folder in ("proc", "dev", "etc", "tmp"):
        make_directory(f"{root}/{folder}", 0o755)
    for name in _PROGRAMS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{root}/{name}")
            kernel.mount(f"/{name}", f"{root}/{name}", flags=kernel.MS_BIND | kernel.MS_REC)
            kernel.make_read_only(f"{root}/{name}")
    mount_processes(f"{root}/proc")
    mount_devices("/dev", f"{root}/dev")
    for device in devices:
        os.close(os.open(f"{root}{device}", os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(device, f"{root}{device}", flags=kernel.MS_BIND)
    write_file(f"{root}/etc/resolv.conf", f"nameserver {resolver}\n")
    for name in _LOADER:
        if os.path.isfile(f"/etc/{name}"):
            with open(f"/etc/{name}", "rb") as source, open(f"{root}/etc/{name}", "wb") as copy:
                copy.write(source.read())
    os.chdir(root)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")
