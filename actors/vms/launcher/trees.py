"""The parts that the two roots of a VM have in common: folders, files, and the kernel's file systems."""

from __future__ import annotations

import errno
import os

from .kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, mount

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_MOST_REMOVED = 10_000
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def mount_processes(path: str) -> None:
    """Mount a ``/proc`` of this process's PID namespace. Raises OSError."""
    mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def mount_system(path: str) -> None:
    """Mount a ``/sys`` of this process's network namespace, or an empty one where the kernel refuses it."""
    try:
        mount("sysfs", path, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    except OSError:
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)


def mount_devices(source: str, path: str) -> None:
    """Mount a ``/dev`` with the devices of the folder ``source``. Raises OSError."""
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=1m")
    for name in _DEVICES:
        os.close(os.open(f"{path}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        mount(f"{source}/{name}", f"{path}/{name}", flags=MS_BIND)
    for name, target in _LINKS.items():
        os.symlink(target, f"{path}/{name}")
    os.mkdir(f"{path}/pts", 0o755)


def make_directory(path: str, mode: int) -> None:
    """Make a folder unless it exists, in place of anything else of its name."""
    if not os.path.isdir(path):
        if os.path.lexists(path):
            os.unlink(path)
        os.mkdir(path, mode)


def make_mount_point(path: str, mode: int) -> None:
    """Make a folder unless it exists, in place of a link, too, so that no mount lands elsewhere."""
    if os.path.islink(path):
        os.unlink(path)
    make_directory(path, mode)


def write_file(path: str, text: str, mode: int = 0o644) -> None:
    """Write a file in place of anything of its name, unless it has this text: forks write nothing.

    Raises OSError, also for a folder of its name with very much in it.
    """
    content = text.encode(errors="surrogateescape")
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as file:
            if file.read(len(content) + 1) == content:
                return
    if os.path.isdir(path) and not os.path.islink(path):
        _remove_folder(path)
    elif os.path.lexists(path):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    os.write(descriptor, content)
    os.close(descriptor)


def _remove_folder(path: str) -> None:
    """Remove a folder with what is in it.

    Raises OSError, also if that would take long, since the start of a VM waits for it.
    """
    folders = [path]
    left = _MOST_REMOVED
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), path)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    os.unlink(entry.path)
    for folder in reversed(folders):
        os.rmdir(folder)
