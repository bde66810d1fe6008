"""The target host: the paths of an installation, and the programs that it runs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection

USER = "ci-daemon"
"""The system user and group of the service."""

SERVICE = "ci-daemon.service"

_DROPPED_PREFIXES = ("CI_DAEMON_", "PYTHON", "PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER", "VIRTUAL_ENV")
"""Prefixes of variables that are meant for the caller's own daemon, Python or pip."""

_MAX_ERROR_LINES = 5


class InstallError(Exception):
    """The installation cannot continue; the message says what to do.

    Running the same command again resumes it.
    """


@immutable
class Host:
    """A host by its root folder, which is not ``/`` only for a tree that no machine boots from."""

    root: Path = Path("/")

    @property
    def opt(self) -> Path:
        """The folder of the releases, each a virtual environment, and of the link to the current one."""
        return self.root / "opt/ci-daemon"

    @property
    def lock(self) -> Path:
        """The lock file of a running installation."""
        return self.root / "run/ci-daemon-install.lock"

    @property
    def command(self) -> Path:
        """The command of the current release, on everyone's PATH."""
        return self.root / "usr/local/bin/ci-daemon"

    @property
    def share(self) -> Path:
        """The folder in which shells and `man` look for what was installed locally."""
        return self.root / "usr/local/share"

    @property
    def configuration(self) -> Path:
        """The owner's configuration file."""
        return self.root / "etc/ci-daemon/ci-daemon.toml"

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "var/lib/ci-daemon"

    @property
    def database(self) -> Path:
        """The state directory's database."""
        return self.state / "ci-daemon.sqlite3"

    @property
    def units(self) -> Path:
        """The folder for units of locally installed software; units in /etc take precedence."""
        return self.root / "usr/local/lib/systemd/system"

    def run(self, *argv: str | Path) -> str:
        """Run a program as root and return its stdout. Raises InstallError."""
        return self._run([*map(str, argv)], environment())

    def call(self, command: Path, *arguments: str, allowed: Collection[int] = (0,)) -> Any:  # noqa: ANN401 - JSON
        """Run a `ci-daemon` on the state directory as the service's user, and return its JSON document.

        Raises InstallError if its exit code is not allowed, or if it fails without a document.
        """
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--"]
        argv = [*become, str(command), "--state-dir", str(self.state), "--json", *arguments]
        return json.loads(self._run(argv, environment() | {"HOME": str(self.state), "USER": USER}, allowed))

    def _run(self, argv: list[str], environment: dict[str, str], allowed: Collection[int] = (0,)) -> str:
        try:
            done = subprocess.run(
                argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd="/"
            )
        except OSError as error:
            raise InstallError(f"`{shlex.join(argv)}` cannot be run: {error.strerror}") from error
        if done.returncode not in allowed or (done.returncode != 0 and not done.stdout):
            lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
            output = "; ".join(lines[-_MAX_ERROR_LINES:]) or "it printed nothing"
            raise InstallError(f"`{shlex.join(argv)}` ended with {done.returncode}: {output}")
        return done.stdout


def environment() -> dict[str, str]:
    """Return the environment for programs: the caller's with root's PATH, less misleading variables."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    return variables | {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
