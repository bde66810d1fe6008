"""A daemon that makes a VM: another process on the host of a test, which the test ends or kills."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from actors.vms import VmSpec
from tests.vms.contract.hosts import HOSTS, IMAGE


class Daemon:
    """A process that opens a provider in a folder, says so, makes a VM, says so, and waits."""

    def __init__(self, provider: str, folder: Path, images_dir: Path, vm_id: str) -> None:
        argv = [sys.executable, "-m", __name__, provider, str(folder), str(images_dir), vm_id]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        )

    def wait_for(self, event: str) -> None:
        """Wait until the process says that it ``begins``, or that the VM is ``made``."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{event}\n"

    def kill(self) -> None:
        """Kill the process at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


def _main(name: str, folder: str, images: str, vm_id: str) -> None:
    (host_type,) = [host for host in HOSTS if host.name == name]
    provider = host_type(Path(folder), Path(images)).open()
    _say("begins")
    provider.create(VmSpec(vm_id, IMAGE, network=False))
    _say("made")
    sys.stdin.read()


def _say(event: str) -> None:
    sys.stdout.write(f"{event}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
