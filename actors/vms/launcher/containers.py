"""A job that builds and runs images (``containers: true``): all that Buildah and Podman lack in it.

Root of a job has the capability to mount and to make namespaces, so these programs run as root and make no user
namespace, which would have every capability. They are told not to try what the job is refused, and how their layers
are stored. Nothing here allows a job more of the kernel than any other has: what this mounts, the job could.
"""

from __future__ import annotations

import os

from .kernel import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, mount
from .trees import write_file

_FOLDER = "/run/containers"
_STORAGE = f"{_FOLDER}/storage.conf"
_ENGINE = f"{_FOLDER}/containers.conf"

_OF_USER = "/run/user/0"

CONTAINER_VARIABLES = {
    "BUILDAH_ISOLATION": "chroot",
    "CONTAINERS_CONF": _ENGINE,
    "CONTAINERS_STORAGE_CONF": _STORAGE,
    "XDG_RUNTIME_DIR": _OF_USER,
}
"""The variables of the job's command.

With other kinds of isolation Buildah makes a keyring, which a job is refused. Without a folder for it, Buildah keeps
logins at registries on the job's disk, and so for the jobs that start from it.
"""

_ENGINE_TEXT = """\
[containers]
cgroupns = "host"
cgroups = "disabled"
default_capabilities = [
  "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
  "SETUID", "SYS_CHROOT",
]
keyring = false
netns = "host"

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
"""Containers share the job's network and control groups: to set up another network takes net_admin."""

_STORAGE_TEXT = """\
[storage]
driver = "{driver}"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
"""
_GROUPS = "/sys/fs/cgroup"


def prepare_containers() -> None:
    """Write the settings, in a ``/run`` and a ``/sys`` that are mounted. Raises OSError."""
    os.mkdir(_FOLDER, 0o755)
    os.makedirs(_OF_USER, 0o700)
    write_file(_ENGINE, _ENGINE_TEXT)
    write_file(_STORAGE, _STORAGE_TEXT.format(driver=_driver()))
    if os.path.isdir(_GROUPS):
        # crun refuses to start if this is no file system of control groups and no folder for some.
        mount("tmpfs", _GROUPS, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, "size=4k,mode=755")


def _driver() -> str:
    """Return how layers are stored: as overlays, or as whole trees on a disk that is itself one.

    The kernels of machines need not have overlays.
    """
    with open("/proc/filesystems", encoding="ascii") as file:
        known = "overlay" in file.read().split()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        kinds = [line.partition(" - ")[2].split()[0] for line in file if line.split()[4] == "/"]
    return "overlay" if known and kinds[-1] != "overlay" else "vfs"
