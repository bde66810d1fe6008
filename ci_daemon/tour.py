"""A first session for `make run`: a private service that builds the example.

``python -m ci_daemon.tour FOLDER`` keeps everything below FOLDER. The first run creates a user with credit. Every run
starts the service unless one runs already, submits ``examples/hello``, follows it, and exits as the build ends, with a
link by which the user signs in when the service runs again. No process that a tour started outlives it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from api import HttpSettings
from ci_daemon.host.lock import served_by

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

_EXAMPLE = Path(__file__).parent.parent / "examples" / "hello"
_USER = "ada@example.org"
_CREDIT_CENTS = 10_000
_START_TIMEOUT = 120.0
_POLL_SECONDS = 0.5
_INTERRUPTED = 130


class TourError(Exception):
    """The tour failed; the message says why."""


@dataclass(frozen=True, slots=True)
class Tour:
    """A tour in one folder: its state directory, the user's API key, the service's own log.

    ``listen`` is the service's usual address and port.
    """

    folder: Path
    listen: str = HttpSettings().listen

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.folder / "state"

    @property
    def journal(self) -> Path:
        """The service's stderr."""
        return self.folder / "service.log"

    @property
    def token_file(self) -> Path:
        """The file of the user's API key, mode 0600."""
        return self.folder / "token"

    def command(self, *arguments: str) -> list[str]:
        """Return the argv of `ci-daemon` on this state directory."""
        return [sys.executable, "-m", "ci_daemon", "--state-dir", str(self.state), *arguments]

    def call(self, *arguments: str) -> Any:  # noqa: ANN401 - JSON
        """Run `ci-daemon` and return its JSON answer; its stderr goes to the user. Raises TourError."""
        done = subprocess.run(self.command("--json", *arguments), stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise TourError(f"`ci-daemon {shlex.join(arguments)}` failed")
        return json.loads(done.stdout)

    def token(self) -> str:
        """Return the user's API key; create the state directory, user, credit and key where missing."""
        self.call("init")
        users = {user["email"]: user for user in self.call("user", "list")}
        if _USER not in users or not self.token_file.exists():
            # An earlier run that was killed at this point has left a user without a key.
            exists = _USER in users
            created = self.call(*(("token", "create", _USER) if exists else ("user", "add", _USER, "--name", "Ada")))
            organization = users.get(_USER, created)["personal_org_slug"]
            self.call("ledger", "grant", organization, str(_CREDIT_CENTS), "--note", "a first session")
            with os.fdopen(os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(created["token"])
        return self.token_file.read_text()

    @contextmanager
    def service(self) -> Iterator[str]:
        """Run the service, at any port if the usual one is taken, and yield its URL. Raises TourError."""
        address = self.folder / "notify"
        address.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify_socket, self.journal.open("ab") as journal:
            notify_socket.bind(str(address))
            anywhere = f"{self.listen.rpartition(':')[0]}:0"
            process = self._start(self.listen, notify_socket, journal) or self._start(anywhere, notify_socket, journal)
            server = served_by(self.state)
            if process is None or server is None or server.url is None:
                raise TourError(f"the service did not start: see {self.journal}")
            try:
                yield server.url
            finally:
                process.terminate()
                process.wait()

    def _start(self, listen: str, notify_socket: socket.socket, journal: IO[bytes]) -> subprocess.Popen[bytes] | None:
        """Start the service and return it when it is ready; None if it has ended."""
        process = subprocess.Popen(
            # Without --wait, running VMs would outlive the service.
            self.command("serve", "--wait", "--listen", listen),
            # A parked VM would still run after the tour.
            env={"CI_DAEMON_POOL_PARKED": "0", **os.environ, "NOTIFY_SOCKET": notify_socket.getsockname()},
            stderr=journal,
            # Ctrl-C is for the command that follows the build; the service is stopped by `service`, in order.
            start_new_session=True,
        )
        ready = False
        try:
            ready = _wait_until_ready(notify_socket, process)
        finally:
            if not ready:
                process.terminate()
                process.wait()
        return process if ready else None

    def run(self) -> int:
        """Build the example and return the build's exit code. Raises TourError."""
        token = self.token()
        running = served_by(self.state)
        with nullcontext(running.url) if running and running.url else self.service() as url:
            status = self.submit(url, token)
        if status != _INTERRUPTED:
            # Printed here and not by `submit`: others on this host can read a command line.
            link = self.call("user", "link", _USER)["link"]
            sys.stdout.write(f"While it runs, sign in as {_USER}, once, within 15 minutes: {link}\n")
        return status

    def submit(self, url: str, token: str) -> int:
        """Submit the example with `ci-daemon submit` and return its exit code, 128 + N after a signal."""
        executable = _quoted(Path(sys.executable).with_name("ci-daemon"))
        serve = f"{executable} --state-dir {_quoted(self.state)} serve"
        build = f"{executable} submit DIR"
        argv = self.command(
            "submit",
            str(_EXAMPLE),
            "--cancel-on-interrupt",
            *("--then", f"Start the service again: {serve}"),
            *("--then", f"Then build a tree of your own: CI_DAEMON_TOKEN=$(cat {_quoted(self.token_file)}) {build}"),
        )
        environ = {**os.environ, "CI_DAEMON_URL": url, "CI_DAEMON_TOKEN": token}
        with _ignore_interrupts():
            status = subprocess.run(argv, env=environ, check=False).returncode
        return status if status >= 0 else 128 - status


def main(folder: Path) -> int:
    """Run the tour and return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    # SIGTERM, like Ctrl-C, also ends what the tour started.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with _exclusive(folder):
            return Tour(folder.absolute()).run()
    except TourError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other tour runs in the folder: a service stops with the tour that started it."""
    with (folder / "tour.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"waiting for the end of another run in {_quoted(folder.absolute())}\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _wait_until_ready(notify_socket: socket.socket, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the service reports that it is ready; False if it has ended or takes too long."""
    notify_socket.settimeout(_POLL_SECONDS)
    for _ in range(int(_START_TIMEOUT / _POLL_SECONDS)):
        try:
            if "READY=1" in notify_socket.recv(4096).decode().splitlines():
                return True
        except TimeoutError:
            if process.poll() is not None:
                return False
    return False


def _quoted(path: Path) -> str:
    """Return a path quoted for the shell, relative to the working directory if it is below."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
