"""git as a closed program: no hooks, no prompts, and only the service's settings and credentials."""

from __future__ import annotations

import math
import os
import shlex
import signal
import tempfile
import time
from collections.abc import Callable  # noqa: TC003 - a record's field
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path  # noqa: TC003 - a record's field
from typing import IO, TYPE_CHECKING, TypeAlias

from actors.repositories.fetching.remote import GitError, Remote, RemoteInvalid
from actors.vms.watched_process import run
from storage import DeployKey, GitCredential, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.vms.watched_process import Limits


Credential: TypeAlias = GitCredential | DeployKey

_HOST_ALIAS = "ci-daemon-repository"
_SSH = (
    "ssh", "-F", "none", "-T", "-a", "-x",
    "-o", "BatchMode=yes",
    "-o", "ClearAllForwardings=yes",
    "-o", "ConnectTimeout=20",
    "-o", "ControlPath=none",
    "-o", "GlobalKnownHostsFile=none",
    "-o", f"HostKeyAlias={_HOST_ALIAS}",
    "-o", "IdentitiesOnly=yes",
    "-o", "IdentityAgent=none",
    "-o", "LogLevel=ERROR",
    "-o", "PermitLocalCommand=no",
    "-o", "PreferredAuthentications=publickey",
    "-o", "ServerAliveCountMax=3",
    "-o", "ServerAliveInterval=20",
    "-o", "StrictHostKeyChecking=yes",
    "-o", "UpdateHostKeys=no",
)  # fmt: skip

_WITHOUT_HTTP = (
    "by_key() {{ for last; do :; done; case $last in 'git-lfs-authenticate '*) exit 1;; esac;"
    ' exec {} "$@"; }}; by_key'
)
"""ssh that does not ask where files of git LFS are by HTTP.

git-lfs would go to any address that the host names.
"""
TOO_LARGE = "the commit has more MB than the limit: raise source.max_mb"

_MAX_OUTPUT = 64 << 20
_SHOWN = 500
_MEASURING_SHARE = 20
"""Measuring a mirror's size takes at most one part in so many of the time."""

_HTTPS_PORT = 443

_SETTINGS = """\
[core]
	hooksPath = /dev/null
	fsmonitor = false
	askPass = /bin/false
[http]
	followRedirects = false
	lowSpeedLimit = 1000
	lowSpeedTime = 60
[credential]
	helper =
[transfer]
	fsckObjects = true
[fetch "fsck"]
	zeroPaddedFilemode = ignore
	missingSpaceBeforeDate = ignore
	badTimezone = ignore
[fetch]
	recurseSubmodules = false
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	threads = 1
[lfs]
	activityTimeout = 60
	concurrentTransfers = 2
[lfs "ssh"]
	autoMultiplex = false
[lfs "transfer"]
	maxRetries = 1
	maxRetryDelay = 1
[uploadpack]
	allowAnySHA1InWant = true
[safe]
"""
"""The only settings that git reads. Its users' and the host's own would let others run programs here.

Connections of git-lfs share none, which `ControlPath` forbids: for each that would, it leaves a folder in /tmp.
"""

_OUT_OF_MEMORY = ("Out of memory", "out of memory", "Cannot allocate memory", "cannot allocate memory")
_OUT_OF_TIME = f"signal {signal.SIGXCPU.value}"
"""Part of git's message if a program that it started was ended for its CPU time."""

_REFUSED = "Authentication failed"
_ADVICE = {
    "Host key verification failed": "the host's key is not the one that was trusted: if its owner changed it,"
    " run `ci-daemon repo trust`",
    "Permission denied (publickey": "the host refuses the deploy key: add the one that `ci-daemon repo key` prints",
    _REFUSED: "the host refuses the user and password, or the token: give others with `ci-daemon repo"
    " edit`, or another token with `ci-daemon repo connect`",
    "could not read Username": "the host asks for a user and password: give them with `ci-daemon repo edit`",
    "unable to update url base from redirection": "the host redirects: give the URL that it redirects to",
    "usage: git merge-tree": "git of the service's host cannot merge without a checkout: update it to 2.38 or newer",
    "'lfs' is not a git command": "git-lfs is missing on the service's host: run `apt-get install git-lfs` there",
}
"""Causes of failed fetches, by a part of git's message, and what to do."""


@immutable
class Authentication:
    """Settings and environment of one git command, and the texts of its output to hide.

    ``ssh`` is the beginning of a command line that connects to the host; empty if there is no key for it.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    ssh: tuple[str, ...] = ()

    def shown(self, output: str) -> str:
        """Return the output without what is hidden."""
        for each in self.hidden:
            output = output.replace(each, "***")
        return output


@contextmanager
def authentication(remote: Remote, credential: Credential | None) -> Iterator[Authentication]:
    """Hand a credential to the git commands of the body, for the scheme and host of the remote only.

    It goes by files in memory, which end with the command. A credential is never an argument, nor in the environment,
    in a URL or on a disk: git's helper and ssh read it from a file without a name, through the descriptor of this
    process. Only this service's user may open that.
    """
    with ExitStack() as files:
        match credential:
            case GitCredential(username, password) if remote.protocol == "https":
                path = files.enter_context(_memory_file(f"username={username}\npassword={password}\n"))
                helper = f'!give() {{ test "$1" = get && cat {path}; }}; give'
                yield Authentication({f"credential.{remote.origin}.helper": helper}, hidden=(password,))
            case DeployKey(private_key, _, host_key) if remote.protocol == "ssh":
                key = files.enter_context(_memory_file(private_key))
                known = files.enter_context(_memory_file(f"{_HOST_ALIAS} {host_key}\n"))
                ssh = (*_SSH, "-i", key, "-o", f"UserKnownHostsFile={known}")
                yield Authentication(environment=_environment(_WITHOUT_HTTP.format(shlex.join(ssh))), ssh=ssh)
            case _:
                yield Authentication(environment=_environment("false"))


def _environment(ssh: str) -> dict[str, str]:
    return {"GIT_SSH_COMMAND": ssh, "GIT_SSH_VARIANT": "ssh"}


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """Make a file in memory; return a path by which children of this process open it."""
    descriptor = os.memfd_create("ci-daemon-credential")
    try:
        os.fchmod(descriptor, 0o600)  # ssh refuses a key that others may read
        os.write(descriptor, text.encode())
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


class LimitReached(GitError):
    """git took too long or fetched too much; another attempt would cost as much."""


class AccessRefused(GitError):
    """The remote does not take the credential."""


class CommitRefused(GitError):
    """A commit cannot be built; another attempt would not help, or cost as much."""


class Git:
    """Runs git in a folder of the service, whose content is a stranger's.

    Args:
        folder: holds the settings; only the service may write there.
        url: the URL or path that may be fetched from.
        max_bytes: the size that ``measured`` may reach.
        measured: returns the bytes in use; called while git runs.
        ca_file: the certificates of authorities to trust, instead of the host's.
        address: the address of the URL's host, if no other may be connected to.
        limits: what each program may take that works on a commit; one that fetches may take CPU time until its
            time is over. None if the content is the caller's own.

    Raises GitError for an address that `Remote` refuses.
    """

    def __init__(
        self,
        folder: Path,
        url: str,
        max_bytes: int,
        measured: Callable[[], int],
        ca_file: Path | None = None,
        address: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits
        try:
            self.remote = Remote.parse(url)
        except RemoteInvalid as error:
            raise GitError(str(error)) from error
        self._settings = folder / "gitconfig"
        self.max_bytes = max_bytes
        self._measured = measured
        self._next_check = 0.0
        trusted = (url, f"{url.rstrip('/')}/.git") if self.remote.protocol == "file" else ()
        text = _SETTINGS + "".join(f'\tdirectory = "{_quoted(each)}"\n' for each in trusted)
        text += f'[lfs]\n\turl = "{_quoted(self.remote.lfs_url)}"\n'  # wins over that of the repository
        if ca_file is not None:
            text += f'[http]\n\tsslCAInfo = "{_quoted(str(ca_file))}"\n'
        if address is not None:
            text += f'[http]\n\tcurloptResolve = "{self.remote.host}:{self.remote.port or _HTTPS_PORT}:{address}"\n'
        self._settings.write_text(text)

    def fetch(self, *arguments: str, at: Path, seconds: float, credential: Credential | None) -> bytes:
        """Return the output of a git command that asks the remote.

        Raises GitError, past a limit LimitReached.
        """
        with authentication(self.remote, credential) as given:
            return self._output(
                _Command(arguments, at, seconds, self.remote.protocol, self._check_size, given, whole=True)
            )

    def copy(self, *arguments: str, at: Path, seconds: float) -> None:
        """Run a git command that fetches from a folder of this host.

        Raises GitError, past a limit CommitRefused.
        """
        with _refusing():
            self._output(_Command(arguments, at, seconds, "file", self._check_size))

    def run(self, *arguments: str, at: Path, seconds: float) -> bytes:
        """Return the output of a git command on commits.

        Raises GitError, past a limit CommitRefused.
        """
        with _refusing():
            return self._output(_Command(arguments, at, seconds))

    def answer(
        self, *arguments: str, at: Path, seconds: float, statuses: frozenset[int], environment: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Return the exit status, one of ``statuses``, and the output of a git command on commits.

        ``environment`` is added to that of every git. Raises GitError, past a limit CommitRefused.
        """
        with _refusing(), tempfile.TemporaryFile() as out:
            given = Authentication(environment=environment)
            status = self._run(_Command(arguments, at, seconds, given=given, statuses=statuses), out)
            if os.fstat(out.fileno()).st_size > _MAX_OUTPUT:
                raise LimitReached(f"git {arguments[0]} printed more than {_MAX_OUTPUT >> 20} MiB")
            out.seek(0)
            return status, out.read()

    def check_all(self, *arguments: str, at: Path, seconds: float) -> None:
        """Run a git command that reads the whole repository.

        Raises GitError, past a limit LimitReached.
        """
        self._output(_Command(arguments, at, seconds, whole=True))

    def write(self, path: Path, *arguments: str, at: Path, seconds: float, max_bytes: int) -> None:
        """Write the output of a git command on a commit to a file.

        Raises GitError, past a limit CommitRefused.
        """

        def check() -> None:
            if path.stat().st_size > max_bytes:
                raise CommitRefused(TOO_LARGE)

        with _refusing(), path.open("wb") as out:
            self._run(_Command(arguments, at, seconds, check=check), out)
        check()

    def free_bytes(self) -> int:
        """Return the bytes that more may be fetched."""
        return max(self.max_bytes - self._measured(), 0)

    def _check_size(self) -> None:
        """Raise LimitReached past the limit of size. A mirror of many files is measured less often."""
        began = time.monotonic()
        if began < self._next_check:
            return
        measured = self._measured()
        now = time.monotonic()
        self._next_check = now + _MEASURING_SHARE * (now - began)
        if measured > self.max_bytes:
            limit = f"{self.max_bytes / 2**30:g} GB"
            raise LimitReached(f"the repository has more than {limit}: raise repositories.max_mirror_gb")

    def _output(self, command: _Command) -> bytes:
        def check_size() -> None:
            if os.fstat(out.fileno()).st_size > _MAX_OUTPUT:
                raise LimitReached(f"git {command.arguments[0]} printed more than {_MAX_OUTPUT >> 20} MiB")

        def check() -> None:
            check_size()
            command.check()

        with tempfile.TemporaryFile() as out:
            self._run(replace(command, check=check), out)
            check_size()  # git may have ended between two checks
            out.seek(0)
            return out.read()

    def _run(self, command: _Command, out: IO[bytes]) -> int:
        name, seconds, given = command.arguments[0], command.seconds, command.given
        deadline = time.monotonic() + seconds

        def check_all() -> None:
            if time.monotonic() > deadline:
                raise LimitReached(f"git {name} took more than {seconds:.0f} s and was ended")
            command.check()

        limits = self._limits
        if limits is not None and command.whole:
            limits = replace(limits, cpu_seconds=math.ceil(seconds))
        settings = (option for key, value in given.settings.items() for option in ("-c", f"{key}={value}"))
        environment = self._environment(command.protocol) | dict(given.environment)
        argv = ("git", *settings, *command.arguments)
        result = run(argv, cwd=command.at, environment=environment, check=check_all, stdout=out, limits=limits)
        if result.status not in command.statuses:
            output = given.shown(result.output.strip())
            if limits is not None:
                _tell_limit(name, result.status, output, limits)
            advice = next((f"{advice} ({self.remote.url})" for part, advice in _ADVICE.items() if part in output), "")
            kind = AccessRefused if _REFUSED in output else GitError
            raise kind(advice or f"git {name} failed: {output[-_SHOWN:]}")
        return result.status

    def _environment(self, protocol: str) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._settings),
            "GIT_ALLOW_PROTOCOL": protocol,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }


@immutable
class _Command:
    """A run of git: its arguments, working directory, seconds, protocol of fetches, and check.

    It may use CPU time for all of its seconds if it works on the ``whole`` repository. It has failed unless it ends
    with one of the ``statuses``.
    """

    arguments: tuple[str, ...]
    at: Path
    seconds: float
    protocol: str = ""
    check: Callable[[], None] = lambda: None
    given: Authentication = field(default_factory=Authentication)
    whole: bool = False
    statuses: frozenset[int] = frozenset({0})


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse the commit whose work reaches a limit: another attempt would reach it, too."""
    try:
        yield
    except LimitReached as error:
        raise CommitRefused(str(error)) from error


def _tell_limit(name: str, status: int, output: str, limits: Limits) -> None:
    """Raise LimitReached if a git that failed had reached its limits of CPU time or memory."""
    if status in {-signal.SIGXCPU, -signal.SIGKILL} or _OUT_OF_TIME in output:
        limit = f"{limits.cpu_seconds} s of CPU time: raise repositories.git_cpu_seconds"
    elif any(each in output for each in _OUT_OF_MEMORY):
        limit = f"{limits.memory_bytes >> 20} MB of memory: raise repositories.git_memory_mb"
    else:
        return
    raise LimitReached(f"git {name} took more than {limit}")


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
