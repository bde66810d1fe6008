"""git as a closed program: no hooks, no prompts, and no settings but those of the service."""

from __future__ import annotations

import os
import tempfile
import time
from typing import IO, TYPE_CHECKING

from actors.repositories.fetching.authentication import Authentication, authentication
from actors.repositories.fetching.remote import Remote, RemoteInvalid
from actors.vms.watched_process import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.repositories.fetching.authentication import Credential

__all__ = ["TOO_LARGE", "AccessRefused", "CommitRefused", "Git", "GitError", "LimitReached"]

TOO_LARGE = "the commit has more MB than the limit: raise source.max_mb"

_MAX_OUTPUT = 64 << 20
_SHOWN = 500
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
[lfs "transfer"]
	maxRetries = 1
	maxRetryDelay = 1
[uploadpack]
	allowAnySHA1InWant = true
[safe]
"""
"""The only settings that git reads. Its users' and the host's own would let others run programs here."""


class GitError(Exception):
    """git failed, took too long or fetched too much; the message says what to do."""


class LimitReached(GitError):
    """git took too long or fetched too much; another attempt would cost as much."""


class AccessRefused(GitError):
    """The remote does not take the credential."""


class CommitRefused(GitError):
    """A commit cannot be built; another attempt would not help."""


_REFUSED = "Authentication failed"
_ADVICE = {
    "Host key verification failed": "the host's key is not the one that was trusted: if its owner changed it,"
    " run `ci-daemon repo trust`",
    "Permission denied (publickey": "the host refuses the deploy key: add the one that `ci-daemon repo key` prints",
    _REFUSED: "the host refuses the user and password, or the token: give others with `ci-daemon repo"
    " edit`, or another token with `ci-daemon repo connect`",
    "could not read Username": "the host asks for a user and password: give them with `ci-daemon repo edit`",
    "unable to update url base from redirection": "the host redirects: give the URL that it redirects to",
    "'lfs' is not a git command": "git-lfs is missing on the service's host: run `apt-get install git-lfs` there",
}
"""Causes of failed fetches, by a part of git's message, and what to do."""


class Git:
    """Runs git in a folder of the service, whose content is a stranger's.

    Args:
        folder: holds the settings; only the service may write there.
        url: the URL or path that may be fetched from.
        max_bytes: the size that ``measured`` may reach.
        measured: returns the bytes in use; called while git runs.
        ca_file: the certificates of authorities to trust, instead of the host's.
        address: the address of the URL's host, if no other may be connected to.

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
    ) -> None:
        try:
            self.remote = Remote.parse(url)
        except RemoteInvalid as error:
            raise GitError(str(error)) from error
        self._settings = folder / "gitconfig"
        self.max_bytes = max_bytes
        self._measured = measured
        trusted = (url, f"{url.rstrip('/')}/.git") if self.remote.protocol == "file" else ()
        text = _SETTINGS + "".join(f'\tdirectory = "{_quoted(each)}"\n' for each in trusted)
        text += f'[lfs]\n\turl = "{_quoted(self.remote.lfs_url)}"\n'  # wins over that of the repository
        if ca_file is not None:
            text += f'[http]\n\tsslCAInfo = "{_quoted(str(ca_file))}"\n'
        if address is not None:
            text += f'[http]\n\tcurloptResolve = "{self.remote.host}:{self.remote.port or _HTTPS_PORT}:{address}"\n'
        self._settings.write_text(text)

    def fetch(self, *arguments: str, at: Path, seconds: float, credential: Credential | None) -> bytes:
        """Return the output of a git command that asks the remote. Raises GitError."""
        with authentication(self.remote, credential) as given:
            return self._output(arguments, at, seconds, self.remote.protocol, self._check_size, given)

    def copy(self, *arguments: str, at: Path, seconds: float) -> None:
        """Run a git command that fetches from a folder of this host. Raises GitError."""
        self._output(arguments, at, seconds, "file", self._check_size, Authentication())

    def run(self, *arguments: str, at: Path, seconds: float) -> bytes:
        """Return the output of a git command that fetches nothing. Raises GitError."""
        return self._output(arguments, at, seconds, "", lambda: None, Authentication())

    def write(self, path: Path, *arguments: str, at: Path, seconds: float, max_bytes: int) -> None:
        """Write the output of a git command to a file. Raises GitError, also past ``max_bytes``."""

        def check() -> None:
            if path.stat().st_size > max_bytes:
                raise CommitRefused(TOO_LARGE)

        with path.open("wb") as out:
            self._run(arguments, at, seconds, "", check, Authentication(), out)
        check()

    def free_bytes(self) -> int:
        """Return the bytes that more may be fetched."""
        return max(self.max_bytes - self._measured(), 0)

    def _check_size(self) -> None:
        if self._measured() > self.max_bytes:
            limit = f"{self.max_bytes / 2**30:g} GB"
            raise LimitReached(f"the repository has more than {limit}: raise repositories.max_mirror_gb")

    def _output(
        self,
        arguments: tuple[str, ...],
        at: Path,
        seconds: float,
        protocol: str,
        check: Callable[[], None],
        given: Authentication,
    ) -> bytes:
        def check_output() -> None:
            if out.tell() > _MAX_OUTPUT:
                raise LimitReached(f"git {arguments[0]} printed more than {_MAX_OUTPUT >> 20} MiB and was ended")
            check()

        with tempfile.TemporaryFile() as out:
            self._run(arguments, at, seconds, protocol, check_output, given, out)
            out.seek(0)
            return out.read(_MAX_OUTPUT)

    def _run(
        self,
        arguments: tuple[str, ...],
        at: Path,
        seconds: float,
        protocol: str,
        check: Callable[[], None],
        given: Authentication,
        out: IO[bytes],
    ) -> None:
        deadline = time.monotonic() + seconds

        def check_all() -> None:
            if time.monotonic() > deadline:
                raise LimitReached(f"git {arguments[0]} took more than {seconds:.0f} s and was ended")
            check()

        settings = (option for key, value in given.settings.items() for option in ("-c", f"{key}={value}"))
        environment = self._environment(protocol) | dict(given.environment)
        argv = ("git", *settings, *arguments)
        result = run(argv, cwd=at, environment=environment, check=check_all, stdout=out)
        if result.status != 0:
            output = given.shown(result.output.strip())
            advice = next((f"{advice} ({self.remote.url})" for part, advice in _ADVICE.items() if part in output), "")
            kind = AccessRefused if _REFUSED in output else GitError
            raise kind(advice or f"git {arguments[0]} failed: {output[-_SHOWN:]}")

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


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
