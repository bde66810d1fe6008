"""OpenSSH's sshd on the loopback, for one user with one key, of a package that is only unpacked."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import reserved_port
from tests.programs import unpacked_libraries, unpacked_program
from tests.waiting import until

_AS_ROOT = """
mount --bind "$1/passwd" /etc/passwd
mount -t tmpfs none /run
mkdir -m 0755 /run/sshd
shift
exec "$@"
"""


@dataclass(frozen=True)
class SshServer:
    """An sshd that lets the keys in ``authorized`` in."""

    folder: Path
    port: int

    @property
    def authorized(self) -> Path:
        return self.folder / "authorized_keys"

    @property
    def user(self) -> str:
        return pwd.getpwuid(os.getuid()).pw_name

    @property
    def commands(self) -> list[str]:
        """The commands that keys were let run by ``let_run``."""
        log = self.folder / "commands"
        return log.read_text().splitlines() if log.exists() else []

    def let_run(self, public_key: str, programs: Path) -> None:
        """Let a key in, for which the programs of a folder are there, too."""
        command = r"\"$SSH_ORIGINAL_COMMAND\""
        shell = f"echo {command} >>{self.folder}/commands; PATH={programs}:$PATH; eval {command}"
        self.authorized.write_text(f'command="{shell}" {public_key}\n')

    def url(self, path: Path) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"


@contextmanager
def ssh_server(folder: Path, port: int = 0) -> Iterator[SshServer]:
    """Run sshd until the end of the body, with a host key of its own, at a free port unless one is given."""
    with reserved_port() as free, _running(folder, port or free) as server:
        yield server


@contextmanager
def _running(folder: Path, port: int) -> Iterator[SshServer]:
    program = unpacked_program("sshd")
    folder.mkdir(exist_ok=True)
    (folder / "host").unlink(missing_ok=True)
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host"), check=True)
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        # The default, which is safe from quantum computers, takes ssh more than a tenth of a second of the CPU.
        "KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org\n"
    )
    argv = [program, "-D", "-e", "-f", str(folder / "config")]
    if os.geteuid() == 0:
        users = Path("/etc/passwd").read_text().replace("sshd:", "sshd-of-the-host:")
        (folder / "passwd").write_text(f"{users}sshd:x:65533:65534::/run/sshd:/bin/false\n")
        argv = ["unshare", "--mount", "sh", "-ec", _AS_ROOT, "sh", str(folder), *argv]
    environ = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": unpacked_libraries()}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(argv, env=environ, stderr=log, start_new_session=True)
    try:
        until(lambda: "listening" in (folder / "log").read_text(), "sshd")
        yield SshServer(folder, port)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
