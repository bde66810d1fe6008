"""The baseline of benchmarks with VMs: a sandbox made by a minimal shell script, ``baseline_vm.sh``."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms import NetworkSettings, SshEndpoint
from actors.vms.host.network import plan_network
from actors.vms.host.vm_folder import KeyPair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.testbed import Testbed

_SCRIPT = Path(__file__).with_name("baseline_vm.sh")
_EXIT_TIMEOUT_SECONDS = 10
_NAMESPACES = ("--user", "--mount", "--pid", "--uts", "--ipc", "--net", "--root")
_SSHD_CONFIG = """\
HostKey /run/host_key
AuthorizedKeysFile /run/authorized_keys
StrictModes no
UsePAM no
UseDNS no
LoginGraceTime 0
LogLevel QUIET
"""
_SSHD = ("/usr/sbin/sshd", "-i", "-f", "/run/sshd_config")


@dataclass(frozen=True, slots=True)
class BaselineVm:
    """A running sandbox: the name of its disk, its process, and the connection to its sshd."""

    name: str
    process: subprocess.Popen[bytes]
    endpoint: SshEndpoint

    def wait(self) -> None:
        """Wait until its sshd runs, whose greeting stays to be read."""
        assert isinstance(self.endpoint.socket, socket.socket)
        self.endpoint.socket.recv(1, socket.MSG_PEEK)


class BaselineVms:
    """Makes sandboxes without the service below one folder, all with the same keys. Thread-safe."""

    def __init__(self, testbed: Testbed) -> None:
        """Make the folder and the keys, which are thus not measured."""
        self.folder = testbed.folder / "baseline-vms"
        self.folder.mkdir(exist_ok=True)
        self._image = testbed.root
        self._host, self._caller = KeyPair.make(), KeyPair.make()
        self._program = plan_network(NetworkSettings())["argv"][0]
        self._numbers = count()
        self._write("host_key", self._host.private)
        self._write("sshd_config", _SSHD_CONFIG)
        self._write("authorized_keys", f"{self._caller.public}\n")
        self.key = self._write("key", self._caller.private)
        self.known_hosts = self._write("known_hosts", f"sandbox {self._host.public}\n")

    def argv(self, name: str, *, below: Sequence[str] = (), network: bool) -> list[str]:
        """Return the command that makes a sandbox, to be run in the folder.

        ``below`` names the sandboxes whose disks it builds on.
        """
        lower = ":".join([*(f"{each}/upper" for each in below), str(self._image)])
        return ["sh", str(_SCRIPT), name, lower, self._program if network else ""]

    @contextmanager
    def start(self, *, below: Sequence[str] = (), network: bool) -> Iterator[BaselineVm]:
        """Make a sandbox that ends with the context; its disk stays until `remove`."""
        name = f"{next(self._numbers)}"
        with self._connected(self.argv(name, below=below, network=network)) as (process, endpoint):
            yield BaselineVm(name, process, endpoint)

    @contextmanager
    def another_sshd(self, vm: BaselineVm) -> Iterator[SshEndpoint]:
        """Start another sshd in a running sandbox."""
        launcher = vm.process.pid
        target = Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii").split()[0]
        with self._connected(["nsenter", "--target", target, *_NAMESPACES, *_SSHD]) as (_, endpoint):
            yield endpoint

    def remove(self, vm: BaselineVm) -> None:
        """Remove the disk of a sandbox that has ended."""
        folder = self.folder / vm.name
        (folder / "work" / "work").chmod(0o700)
        shutil.rmtree(folder)

    @contextmanager
    def _connected(self, argv: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], SshEndpoint]]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                end = theirs.fileno()
                process = subprocess.Popen(argv, cwd=self.folder, stdin=end, stdout=end, start_new_session=True)
            try:
                yield process, SshEndpoint(ours.dup(), self._caller.private, self._host.public)
            finally:
                # A close alone reaches sshd up to 100 ms later, when paramiko's thread returns from its read.
                with suppress(OSError):
                    ours.shutdown(socket.SHUT_RDWR)
                _end(process)

    def _write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="ascii")
        return file


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that ends with its connection, and kill it if it does not.

    `Popen.wait` with a time-out polls at growing intervals, which would be part of the measured time.
    """
    with os.fdopen(os.pidfd_open(process.pid)) as descriptor:
        ended = False
        try:
            ended = bool(select.select([descriptor], [], [], _EXIT_TIMEOUT_SECONDS)[0])
        finally:
            if not ended:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
