"""Agreements of the launcher's programs with each other and with the service.

The first are between a machine's two ends: marks on the console, the sshd's port, parts of the seed, descriptors. The
others are between an instance's init, the programs that the service runs in it, and the service.
"""

from __future__ import annotations

READY = b"ci-daemon: ready"
ATTACHED = b"ci-daemon: attached"
FAILED = b"ci-daemon: failed"

SSH_PORT = 60022
"""A port that no test of a job is likely to want, as jobs share the machine's network with the sshd."""

SEED_PART_BYTES = 1 << 16
"""The bytes of each of the seed's two parts."""

JOB_DISK, SERVICE_DISK = "job", "service"
"""The serial numbers of the disks of a job and, followed by a number from 0 on, of its services."""

FIRST_FILE = 100
"""The number of the first of QEMU's descriptors; its command line names them."""

FOLDER = "/run/ci-daemon"
"""The folder of init and the service's programs; no process of the VM sees it."""

DOOR = f"{FOLDER}/door"
SSH = f"{FOLDER}/ssh"
CONTROL = f"{FOLDER}/control"
LOG = f"{FOLDER}/log"
AGENT = f"{FOLDER}/agent"

DISK = f"{FOLDER}/disk"
"""The place of the job's disk, which the engine mounts; those of its services end with a number."""

INTERFACE = "eth0"
BOOT, END = b"boot", b"end"
MESSAGE_BYTES = 1 << 17
