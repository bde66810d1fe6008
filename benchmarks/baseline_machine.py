"""The baseline of benchmarks with machines: a QEMU without namespaces, firewall and limits."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms import SshEndpoint
from actors.vms.host.vm_folder import KeyPair
from actors.vms.launcher.words import FIRST_FILE, READY, SSH_PORT
from actors.vms.qemu.machine import Qmp, Seed, plug_disk, plug_shape
from actors.vms.qemu.program import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from actors.vms.host.boot import BootFiles
    from storage import Shape

_SECONDS = 300.0
_STATE = "state"
_PROCESSES = 4096
_OVERLAY_OPTIONS = "cluster_size=8k"


@dataclass(frozen=True, slots=True)
class BaselineMachine:
    """A guest, the port of the loopback that leads to its sshd, and the socket of its commands."""

    process: subprocess.Popen[bytes]
    port: int
    commands: Path
    keys: tuple[str, str]

    def connect(self) -> SshEndpoint:
        """Connect to its sshd."""
        private, host = self.keys
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=_SECONDS)
        connection.settimeout(None)
        return SshEndpoint(connection, private, host)

    def qmp(self) -> Qmp:
        """Return a connection for commands to QEMU."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.commands))
        return Qmp(connection, _SECONDS)

    def plug(self, shape: Shape, layers: Sequence[Path]) -> None:
        """Plug in a disk of these layers, its own first, and a shape."""
        with self.qmp() as qmp:
            plug_shape(qmp, shape)
            plug_disk(qmp, layers)

    def save(self, file: Path) -> None:
        """Stop the guest and write its memory and devices into a file."""
        with self.qmp() as qmp, file.open("wb") as state:
            qmp.execute("stop")
            _migrate(qmp, "migrate", state.fileno())

    def restore(self, file: Path) -> None:
        """Continue what was saved in a file."""
        with self.qmp() as qmp, file.open("rb") as state:
            _migrate(qmp, "migrate-incoming", state.fileno())
            qmp.execute("cont")


class BaselineMachines:
    """Starts guests of the kernel, first root and base image of the service, with the same keys."""

    def __init__(self, folder: Path, program: str, boot: BootFiles, base: Path) -> None:
        """Make the seed and the keys, which are thus not measured."""
        folder.mkdir()
        self.folder = folder
        self._program = program
        self._boot = boot
        self._base = base
        host, caller = KeyPair.make(), KeyPair.make()
        self._seed = Seed(folder)
        self._seed.make(host, caller, _PROCESSES)
        self._keys = (caller.private, host.public)

    @contextmanager
    def boot(self) -> Iterator[BaselineMachine]:
        """Start a guest, and yield it when its sshd is served."""
        with self._started() as machine:
            output = machine.process.stdout
            assert output is not None
            printed = b""
            while READY not in printed:
                if not (block := os.read(output.fileno(), 1 << 16)):
                    message = f"QEMU ended: {printed[-2000:].decode(errors='replace')}"
                    raise RuntimeError(message)
                printed += block
            yield machine

    @contextmanager
    def restore(self, state: Path) -> Iterator[BaselineMachine]:
        """Continue a guest that was saved."""
        with self._started("-incoming", "defer") as machine:
            machine.restore(state)
            yield machine

    def overlay(self, name: str, below: Path, kind: str, gigabytes: int) -> Path:
        """Make a disk over another one, whose format is ``kind``."""
        made = self.folder / name
        backing = ["-b", str(below), "-F", kind, "-u"]
        argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", _OVERLAY_OPTIONS, *backing, str(made), f"{gigabytes}G"]
        subprocess.run(argv, check=True)
        return made

    @contextmanager
    def _started(self, *more: str) -> Iterator[BaselineMachine]:
        commands = self.folder / "commands"
        commands.unlink(missing_ok=True)
        with ExitStack() as opened:
            listener = opened.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(commands))
            listener.listen(1)
            paths = (self._boot.kernel, self._boot.initramfs, self._base, self._seed.path)
            files = [opened.enter_context(path.open("rb")).fileno() for path in paths] + [listener.fileno()]
            numbers = range(FIRST_FILE, FIRST_FILE + len(files))
            for number, file in zip(numbers, files, strict=True):
                os.dup2(file, number, inheritable=True)
                opened.callback(os.close, number)
            port = _free_port()
            forward = f"tcp:127.0.0.1:{SSH_PORT}-"
            argv = [each.replace(forward, f"tcp:127.0.0.1:{port}-") for each in command_line(self._program, kvm=False)]
            process = opened.enter_context(
                subprocess.Popen([*argv, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=numbers)
            )
            opened.callback(process.kill)
            yield BaselineMachine(process, port, commands, self._keys)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _migrate(qmp: Qmp, command: str, state: int) -> None:
    """Send a guest's state to a descriptor or take it from there, and wait for the end."""
    qmp.execute("migrate-set-capabilities", {"capabilities": [{"capability": "events", "state": True}]})
    qmp.execute("getfd", {"fdname": _STATE}, descriptor=state)
    qmp.execute(command, {"uri": f"fd:{_STATE}"})
    while (status := qmp.execute("query-migrate").get("status")) != "completed":
        if status == "failed":
            message = f"{command} failed"
            raise RuntimeError(message)
        qmp.await_event("MIGRATION")
