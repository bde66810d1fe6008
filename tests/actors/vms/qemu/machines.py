"""Looks at machines under test, from inside and from the host."""

from __future__ import annotations

from pathlib import Path

from actors.vms import Connection, in_job
from actors.vms.host.vm_folder import VmFolder

IMAGE = "debian:12"
SECONDS = 1200.0
PROCESSES = 300
"""The most in a machine: few, so that a fork bomb is soon over."""

_NO_CAPABILITY = f"{0:016x}"
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
CONFINED = {**dict.fromkeys(_CAPABILITIES, _NO_CAPABILITY), "Groups": "", "NoNewPrivs": "1", "Seccomp": "2"}
"""The lines of /proc/PID/status of a process that has no privilege, and can gain none."""


def says(connection: Connection, script: str) -> str:
    """Run a script on the job's disk, which must succeed; return its output."""
    done = connection.run(in_job(script), timeout=SECONDS)
    assert done.exit_code == 0, done
    return done.stdout.decode().strip()


def qemu_of(provider_folder: Path, vm_id: str) -> Path:
    """Return the folder of /proc of the QEMU of a machine."""
    monitor = VmFolder(provider_folder / "vms" / vm_id).monitor()
    children = Path(f"/proc/{monitor}/task/{monitor}/children").read_text(encoding="ascii").split()
    (qemu,) = [Path("/proc", child) for child in children if "qemu" in Path("/proc", child, "comm").read_text()]
    return qemu


def confinement(process: Path) -> dict[str, str]:
    """Return the lines of `CONFINED` of a process."""
    lines = (line.partition(":") for line in process.joinpath("status").read_text(encoding="ascii").splitlines())
    return {key: value.strip() for key, _, value in lines if key in CONFINED}
