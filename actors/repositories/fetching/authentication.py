"""The way of a credential to git: by files in memory, which end with the command.

A credential is never an argument, nor in the environment, in a URL or on a disk: git's helper and ssh read it from a
file without a name, through the descriptor of this process. Only this service's user may open that.
"""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from storage import DeployKey, GitCredential, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.repositories.fetching.remote import Remote

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
    """Hand a credential to the git commands of the body, for the scheme and host of the remote only."""
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
