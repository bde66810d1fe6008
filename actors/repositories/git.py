"""git as a closed program: no hooks, no prompts, and no settings but those of the service."""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING

from actors.vms.watched_process import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Git", "GitError", "TooLarge"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MAX_OUTPUT = 64 << 20
_SHOWN = 500

_SETTINGS = """\
[core]
	hooksPath = /dev/null
	fsmonitor = false
	askPass = /bin/false
[http]
	followRedirects = false
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
[uploadpack]
	allowAnySHA1InWant = true
[safe]
"""
"""The only settings that git reads. Its users' and the host's own would let others run programs here."""


class GitError(Exception):
    """git failed, took too long or fetched too much; the message says what to do."""


class TooLarge(GitError):
    """A commit has more than the limit; another attempt would not help."""


class Git:
    """Runs git in a folder of the service, whose content is a stranger's.

    Args:
        folder: holds the settings; only the service may write there.
        remote: the URL or path that may be fetched from.
        max_bytes: the size that ``measured`` may reach.
        measured: returns the bytes in use; called while git runs.
    """

    def __init__(self, folder: Path, remote: str, max_bytes: int, measured: Callable[[], int]) -> None:
        self._settings = folder / "gitconfig"
        self.max_bytes = max_bytes
        self._measured = measured
        trusted = (remote, f"{remote.rstrip('/')}/.git") if remote.startswith("/") else ()
        lines = (f'\tdirectory = "{_quoted(each)}"\n' for each in trusted)
        self._protocol = "file" if remote.startswith("/") else "https"
        self._settings.write_text(_SETTINGS + "".join(lines))

    def run(self, *arguments: str, at: Path, seconds: float, fetches: bool = False, from_mirror: bool = False) -> bytes:
        """Return the output of a git command in a folder; it may fetch from the remote only. Raises GitError.

        With ``from_mirror`` it may fetch from a folder of this host instead.
        """
        deadline = time.monotonic() + seconds

        def check() -> None:
            if time.monotonic() > deadline:
                raise GitError(f"git {arguments[0]} took more than {seconds:.0f} s and was ended")
            if out.tell() > _MAX_OUTPUT:
                raise GitError(f"git {arguments[0]} printed more than {_MAX_OUTPUT >> 20} MiB and was ended")
            if fetches and self._measured() > self.max_bytes:
                limit = f"{self.max_bytes / 2**30:g} GB"
                raise GitError(f"the repository has more than {limit}: raise repositories.max_mirror_gb")

        with tempfile.TemporaryFile() as out:
            protocol = "file" if from_mirror else self._protocol
            result = run(("git", *arguments), cwd=at, environment=self._environment(protocol), check=check, stdout=out)
            if result.status != 0:
                raise GitError(f"git {arguments[0]} failed: {result.output.strip()[-_SHOWN:]}")
            out.seek(0)
            return out.read(_MAX_OUTPUT)

    def write(self, path: Path, *arguments: str, at: Path, seconds: float, max_bytes: int) -> None:
        """Write the output of a git command to a file. Raises GitError, also past ``max_bytes``."""
        deadline = time.monotonic() + seconds

        def check() -> None:
            if time.monotonic() > deadline:
                raise GitError(f"git {arguments[0]} took more than {seconds:.0f} s and was ended")
            if path.stat().st_size > max_bytes:
                raise TooLarge(f"the commit has more than {max_bytes >> 20} MB: raise repositories.max_source_mb")

        with path.open("wb") as out:
            result = run(("git", *arguments), cwd=at, environment=self._environment(""), check=check, stdout=out)
        check()
        if result.status != 0:
            raise GitError(f"git {arguments[0]} failed: {result.output.strip()[-_SHOWN:]}")

    def _environment(self, protocol: str) -> dict[str, str]:
        return {
            "PATH": _PATH,
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
