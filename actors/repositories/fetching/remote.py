"""Addresses that git may fetch from: https, ssh, and paths of this host. Pure."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from storage import immutable, pattern

_MAX_LENGTH = 1000
_HOST = r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_USER = r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?"
_PORT = r"(?::(?P<port>[0-9]{1,5}))?"
_HTTPS = pattern(rf"https://{_HOST}{_PORT}(?P<path>/[^?#\s]*)")
_SSH = pattern(rf"ssh://{_USER}{_HOST}{_PORT}(?P<path>/[^?#\s]+)")
_SCP = pattern(rf"{_USER}{_HOST}:(?P<path>[^\s:/-][^\s]*|/[^\s]*)")
_SSH_PORT = 22


class GitError(Exception):
    """git failed, took too long or fetched too much; the message says what to do."""


class RemoteInvalid(Exception):
    """This address is not one to fetch from; the message says why."""


@immutable
class Remote:
    """An address to fetch from. A path has no ``host`` and ``port``; IPv6 hosts have their brackets."""

    url: str
    protocol: Literal["https", "ssh", "file"]
    host: str = ""
    port: int | None = None

    @classmethod
    def parse(cls, url: str) -> Remote:
        """Return the remote of a URL, of the scp form ``user@host:path``, or of an absolute path.

        Raises RemoteInvalid for all else, such as another scheme, a password, a query, or a leading ``-``.
        """
        if len(url) > _MAX_LENGTH or not url.isprintable():
            raise RemoteInvalid("the address has characters that cannot be shown, or more than 1,000 characters")
        if url.startswith("/"):
            return cls(url, "file")
        if found := _HTTPS.fullmatch(url):
            return cls(url, "https", found["host"], _port(url, found["port"]))
        if found := _SSH.fullmatch(url):
            return cls(url, "ssh", found["host"], _port(url, found["port"]) or _SSH_PORT)
        if "://" not in url and "::" not in url.partition("/")[0] and (found := _SCP.fullmatch(url)):
            return cls(url, "ssh", found["host"], _SSH_PORT)
        raise RemoteInvalid(
            f"{url} is not allowed: give an https or ssh URL without password and query, or a path on this host"
        )

    @property
    def origin(self) -> str:
        """The scheme and host that a credential is for: ``https://host:port``."""
        return f"{self.protocol}://{self.host.lower()}" + (f":{self.port}" if self.port else "")

    @property
    def lfs_url(self) -> str:
        """The address of its server of git LFS."""
        match self.protocol:
            case "https":
                return f"{self.url.rstrip('/').removesuffix('.git')}.git/info/lfs"
            case "ssh":
                return self.url
            case "file":
                return f"file://{quote(self.url)}"

    @property
    def ssh_destination(self) -> str:
        """The user and host that ssh connects to."""
        start, _ = self.split()
        user = start.removeprefix("ssh://").rpartition("@")[0]
        return f"{user}@{self.host.strip('[]')}" if user else self.host.strip("[]")

    def resolve(self, url: str) -> Remote:
        """Return the remote of a submodule of this repository, whose URL may be relative.

        One by ssh, at the host of a repository that is fetched by https, is fetched by https, too: there is a password
        and no key. Raises RemoteInvalid, also for a path on this host.
        """
        if not url.startswith(("./", "../")):
            found = Remote.parse(url)
        else:
            start, path = self.split()
            segments = path.strip("/").split("/")
            for each in url.split("/"):
                if each == ".." and segments:
                    segments.pop()
                elif each == "..":
                    raise RemoteInvalid(f"{url} leads out of {self.url}")
                elif each not in {"", "."}:
                    segments.append(each)
            found = Remote.parse(f"{start}{'/' if path.startswith('/') else ''}{'/'.join(segments)}")
        if found.protocol == "file":
            raise RemoteInvalid(f"{url} is a path on this host: give the submodule an https or ssh URL")
        if self.protocol == "https" and found.protocol == "ssh" and found.host.lower() == self.host.lower():
            return Remote.parse(f"{self.origin}/{found.split()[1].lstrip('/')}")
        return found

    def split(self) -> tuple[str, str]:
        """Return what precedes the path, with the colon of the scp form, and the path."""
        if self.protocol == "file":
            return "", self.url
        if "://" in self.url:
            scheme, _, rest = self.url.partition("://")
            host, _, path = rest.partition("/")
            return f"{scheme}://{host}", f"/{path}"
        start, _, path = self.url.partition(":")
        return f"{start}:", path


def _port(url: str, port: str | None) -> int | None:
    if port is None:
        return None
    if not 0 < int(port) < 65_536:  # noqa: PLR2004 - the ports of TCP
        raise RemoteInvalid(f"{url} has an impossible port")
    return int(port)
