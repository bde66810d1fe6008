"""The processes of a job's command: each runs in the job's namespaces, below those of the service.

The process that becomes the command is made before the command is known, while the service prepares the job. It is in
the PID namespace of the command's init, but a child of the supervisor, which so learns of its end at once.
"""

from __future__ import annotations

import marshal
import os
import resource
import time

from .kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWNS,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    execute,
    mount,
    restore_signals,
    set_dumpable,
    set_title,
    unshare,
)
from .shares import limit_of_job

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .namespaces import Namespaces


SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
_OOM_SCORE = 1000
_NOT_STARTED = 127

_LOOKING_SECONDS = 0.3
_MAX_NAMES = 8
_NAME_BYTES = 64


class Processes:
    """The process that becomes the command, which waits for it, and the command's init.

    ``output`` is the end of a pipe from which to read what the command prints, and ``end`` a descriptor that is
    readable when `note_exit`, and after `kill_rest` when `reap`, has something to do; -1 if there is none.
    """

    def __init__(self, job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int]) -> None:
        """Start the process. Raises OSError if it cannot be made."""
        self._init = job.command_init
        self._all = job.all_processes
        self._status = 0
        spec, self._spec = os.pipe()
        self.output, output = os.pipe()
        try:
            job.next_child_joins_command()
            self._command = os.fork()
            if self._command == 0:
                _become_command(job, spec, limits, groups, output)
        except OSError:
            os.close(self._spec)
            os.close(self.output)
            raise
        finally:
            job.next_child_joins_job()
            os.close(spec)
            os.close(output)
        self.end = os.pidfd_open(self._command)

    def start(self, spec: dict[str, Any]) -> None:
        """Let the process become the command. Raises OSError if it was killed meanwhile."""
        with os.fdopen(self._spec, "wb") as pipe:
            marshal.dump(spec, pipe)

    def terminate(self) -> None:
        """Send TERM to all processes of the command."""
        self._init.terminate_all()

    def kill(self) -> None:
        """Kill all processes of the command."""
        self._init.kill()

    def note_exit(self) -> None:
        """Note how the command's own process has ended. Those that it left run on."""
        self._status = os.waitpid(self._command, 0)[1]
        os.close(self.end)
        self.end = -1

    def holders(self, pipe: int) -> list[str]:
        """Return the names of programs, each once and not all if they are many, that can write into a pipe.

        Other characters than those of usual names become ``_``. It takes a moment at most, whatever the job has open.
        """
        until = time.monotonic() + _LOOKING_SECONDS
        wanted = f"pipe:[{os.fstat(pipe).st_ino}]"
        own = str(os.getpid())
        names: list[str] = []
        for process in os.listdir(self._all):
            if len(names) == _MAX_NAMES or time.monotonic() > until:
                break
            if process.isdecimal() and process != own and self._holds(process, wanted, until):
                name = self._name(process)
                if name not in names:
                    names.append(name)
        return names

    def kill_rest(self) -> None:
        """Kill all that the command left."""
        self._init.kill_all()
        self.end = self._init.word

    def reap(self) -> int | None:
        """Note the end of all that the command left; return its own exit code after that, else None.

        Signal N is 128 + N.
        """
        if self.end == self._init.word and not self._init.all_dead():
            self.end = self._init.pidfd  # it was killed, and the kernel kills the others
            return None
        self._init.close()
        self.end = -1
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code

    def _holds(self, process: str, wanted: str, until: float) -> bool:
        try:
            folder = os.open(f"{process}/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._all)
        except OSError:  # it has ended
            return False
        try:
            for each in os.listdir(folder):
                if time.monotonic() > until:
                    break
                try:
                    if os.readlink(each, dir_fd=folder) == wanted:
                        return True
                except OSError:  # closed meanwhile
                    continue
        except OSError:  # it has ended
            return False
        finally:
            os.close(folder)
        return False

    def _name(self, process: str) -> str:
        try:
            file = os.open(f"{process}/comm", os.O_RDONLY, dir_fd=self._all)
        except OSError:  # it has ended
            return "?"
        try:
            name = os.read(file, _NAME_BYTES).decode("ascii", "replace").strip()
        except OSError:  # it has ended
            return "?"
        finally:
            os.close(file)
        return "".join(each if each.isalnum() or each in "._+-:" else "_" for each in name) or "?"


def _become_command(
    job: Namespaces, received: int, limits: list[tuple[int, int, int]], groups: list[int], output: int
) -> NoReturn:
    """Prepare all that needs no spec, wait for it, and execute the command."""
    try:
        null = os.open("/dev/null", os.O_RDONLY)
        become_program(job, limits, groups, (null, output, output), b"command", received)
        _execute(received)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        os.write(2, f"the command cannot be started: {where}{error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def become_program(
    job: Namespaces,
    limits: list[tuple[int, int, int]],
    groups: list[int],
    streams: tuple[int, int, int],
    title: bytes,
    kept: int = 2,
) -> None:
    """Prepare this process, a child of the supervisor, to execute a program of the job. Raises OSError.

    It becomes root of the job's users, below the job's limits, and the leader of a session. Of its descriptors it keeps
    the ``streams`` as the standard ones, and ``kept``, by default none more.
    """
    for group in groups:
        os.write(group, b"0")
    job.become_root()
    unshare(CLONE_NEWNS | CLONE_NEWCGROUP)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))
    os.umask(0o022)
    restore_signals()
    set_title(title)
    set_dumpable(dumpable=True)  # so that it may write this file
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % _OOM_SCORE)
    set_dumpable(dumpable=False)


def limit_processes(most: int) -> None:
    """Let the program of this process have so many processes and threads, if the job may have as many."""
    most = min(most, limit_of_job())
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _execute(received: int) -> NoReturn:
    with os.fdopen(received, "rb") as pipe:
        spec: dict[str, Any] = marshal.load(pipe)  # noqa: S302 - from the service itself
    limit_processes(spec["processes"])
    os.chdir(spec["cwd"])
    if spec.get("program"):
        execute(spec["program"], spec["env"])
    shell = next((path for path in SHELLS if os.access(path, os.X_OK)), SHELLS[-1])
    pipefail = ["-o", "pipefail"] if spec.get("pipefail") and shell.endswith("/bash") else []
    os.execve(shell, [shell, *pipefail, *spec["arguments"]], spec["env"])  # noqa: S606 - the very point
