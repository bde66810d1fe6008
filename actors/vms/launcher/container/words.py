"""Agreements between an instance's init, the programs that the service runs in it, and the service."""

FOLDER = "/run/ci-daemon"
"""The folder of init and the service's programs; no process of the VM sees it."""

DOOR = f"{FOLDER}/door"
SSH = f"{FOLDER}/ssh"
CONTROL = f"{FOLDER}/control"
LOG = f"{FOLDER}/log"
AGENT = f"{FOLDER}/agent"

DISK = f"{FOLDER}/disk"
"""The place at which the engine mounts the job's disk."""

INTERFACE = "eth0"
BOOT, END = b"boot", b"end"
MESSAGE_BYTES = 1 << 17
