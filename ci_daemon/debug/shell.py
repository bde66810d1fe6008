"""A shell, or one command, in an existing VM, with the job's variables and in its workspace."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import actors
from actors import vms
from actors.vms import Connection, VmError, in_job
from ci_daemon.debug.terminal import attach, local_pty
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.vms import SshEndpoint
    from api.operations import Target
    from ci_daemon.config import Config
    from storage import Clock, Storage

_PREPARE_SECONDS = 30.0
_FOLDER = "/run/ci-daemon/debug"
_SHELL = "for shell in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh; do [ -x $shell ] && exec $shell; done"


class Shell:
    """A connection to a VM, for programs that run as root beside its job. Raises VmError.

    They get ``variables``.
    """

    def __init__(self, endpoint: SshEndpoint, clock: Clock, variables: Mapping[str, str]) -> None:
        self._connection = Connection(endpoint, clock)
        try:
            self._load_variables = self._write_variables(variables)
        except BaseException:
            self._connection.close()
            raise

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code; an empty one is a shell at this process's terminal.

        Raises ConnectionLost if the VM ends before the command.
        """
        script = f"{self._load_variables}; " + (f"exec {shlex.join(command)}" if command else _SHELL)
        pty = None if command else local_pty()
        return attach(self._connection.interactive(in_job(script), pty), interactive=pty is not None)

    def close(self) -> None:
        """Close the connection. Background programs that were started in the VM run on."""
        self._connection.close()

    def _write_variables(self, variables: Mapping[str, str]) -> str:
        """Write the variables to a file of root's in the VM; return the shell line that loads them.

        A file, because every user of the host can read a program's arguments. ``TERM`` stays the terminal's own.
        """
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in variables.items() if name != "TERM"
        )
        file = f"{_FOLDER}/{os.urandom(8).hex()}"
        script = f"umask 077; mkdir -p {_FOLDER} && cat >{file}"
        done = self._connection.run(in_job(script), stdin=exports.encode(), timeout=_PREPARE_SECONDS)
        if done.exit_code:
            message = f"a file cannot be written in the VM: {done.stderr.decode(errors='replace').strip()}"
            raise VmError(message)
        return f". {file}; rm -f {file}; cd /workspace 2>/dev/null || cd /"


def open_shell(storage: Storage, images: vms.Images, providers: vms.Providers, config: Config, target: Target) -> Shell:
    """Connect to the target's VM, with the variables of its job. Raises VmError.

    Secrets are not among them: a shell shows and stores its variables, and nothing here is masked.
    """
    try:
        of_image = images.environment(target.lease.image) if target.lease.image else {}
    except vms.ImageNotFound:
        of_image = {}
    variables = actors.job_environment(
        target.build,
        target.job,
        config.http.url,
        of_jobs=config.jobs.env,
        of_image=of_image,
        of_needed=actors.variables_of(storage.told.outputs_given_to(target.job.id))[0],
        of_build=storage.builds.env(target.build.id),
        secrets={},
    )
    return Shell(providers.of(target.lease).connect(target.lease.uuid), SystemClock(), variables)
