"""SSH to a VM of a cluster by TCP to its member, without the engine between."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from actors.vms import Connection
from actors.vms.launcher.words import SSH
from storage import SystemClock
from tests.fleet.switch import entered_network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms import SshEndpoint
    from tests.fleet.member import Member

_CHUNK_BYTES = 1 << 20
_SERVICE_CIPHER = "aes128-gcm@openssh.com"


@dataclass(frozen=True, slots=True)
class DirectSsh:
    """A way to the sshds of a VM on a member. Of ``keys``, the socket is of no use."""

    vm_id: str
    member: Member
    keys: SshEndpoint

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Connect the service's client."""
        with self._listener() as listener:
            own = socket.create_connection(listener.getsockname())
            self._serve(listener)
        with Connection(replace(self.keys, socket=own), SystemClock()) as connection:
            yield connection

    def ssh(self, command: str, folder: Path) -> Iterator[bytes]:
        """Run a command by the `ssh` program, with its keys in a folder; yield its output."""
        key, known_hosts = folder / "key", folder / "known_hosts"
        key.touch(0o600)
        key.write_text(self.keys.private_key, encoding="ascii")
        known_hosts.write_text(f"vm {self.keys.host_key}\n", encoding="ascii")
        options = [f"-oUserKnownHostsFile={known_hosts}", "-oHostKeyAlias=vm", f"-oCiphers={_SERVICE_CIPHER}"]
        with self._listener() as listener:
            address, port = listener.getsockname()
            host = f"{self.keys.user}@{address}"
            argv = ["ssh", "-F", "none", "-i", str(key), "-p", str(port), *options, host, command]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as ssh:
                assert ssh.stdout
                self._serve(listener)
                while chunk := ssh.stdout.read(_CHUNK_BYTES):
                    yield chunk

    def _listener(self) -> socket.socket:
        """Listen on the member."""
        with entered_network(f"/proc/{self.member.pid}/ns/net"):
            return socket.create_server((self.member.address, 0))

    def _serve(self, listener: socket.socket) -> None:
        """Let an sshd of the VM serve the next connection."""
        state = self.member.run(f"incus query /1.0/instances/ci-vm-{self.vm_id}/state?project=ci")
        given, _ = listener.accept()
        with given, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.connect(f"/proc/{self.member.pid}/root/proc/{json.loads(state)['pid']}/root{SSH}")
            socket.send_fds(door, [b"1"], [given.fileno()] * 3)
