"""Contexts: the servers that a person is signed in to, and the one that commands speak to."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.host.private_file import write_private
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE = "contexts.json"
_LOCK = "lock"
_OTHERS = 0o077


class ContextsUnusable(Exception):
    """A file of this person's configuration cannot be used; the message says what to do."""


@immutable
class Context:
    """A server and the person who is signed in there. The token is elsewhere (`TokenStore`)."""

    name: str
    url: str
    email: str
    token_place: str


@immutable
class Contexts:
    """All contexts in the order of their making, and the name of the current one."""

    all: tuple[Context, ...] = ()
    current_name: str | None = None

    @property
    def current(self) -> Context | None:
        """The context that commands use, None if there is none."""
        return None if self.current_name is None else self.named(self.current_name)

    def named(self, name: str) -> Context | None:
        """Return the context of a name."""
        return next((each for each in self.all if each.name == name), None)

    def of_url(self, url: str) -> Context | None:
        """Return a context of a server, the current one before others."""
        found = [each for each in self.all if each.url == url]
        return next((each for each in found if each.name == self.current_name), found[0] if found else None)

    def adding(self, context: Context) -> Contexts:
        """Return these with another one, in the place of one of the same name; it is the current one."""
        others = tuple(each for each in self.all if each.name != context.name)
        return Contexts((*others, context), context.name)

    def without(self, name: str) -> Contexts:
        """Return these without one; if that was the current one, none is."""
        others = tuple(each for each in self.all if each.name != name)
        return Contexts(others, None if name == self.current_name else self.current_name)

    def using(self, name: str) -> Contexts:
        """Return these with another current one."""
        return replace(self, current_name=name)

    @classmethod
    def load(cls, folder: Path) -> Contexts:
        """Read the contexts of a configuration folder; none if there is no file. Raises ContextsUnusable."""
        file = folder / _FILE
        text = read_private(file)
        if text is None:
            return cls()
        try:
            document = json.loads(text)
            contexts = tuple(Context(**each) for each in document["contexts"])
            return cls(contexts, document["current"])
        except (ValueError, LookupError, TypeError) as error:
            raise ContextsUnusable(f"{file} is damaged ({error!r}): remove it, and sign in again") from error

    def save(self, folder: Path) -> None:
        """Write them to a configuration folder."""
        document = {"current": self.current_name, "contexts": [asdict(each) for each in self.all]}
        write_private(folder / _FILE, json.dumps(document, indent=2) + "\n")


def configuration_folder(environ: Mapping[str, str]) -> Path:
    """Return the caller's folder of this command, below XDG_CONFIG_HOME or else ~/.config."""
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".config") / "ci-daemon"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a configuration folder, and let no other command change it meanwhile."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_private(file: Path) -> str | None:
    """Return the text of a file that only its owner may read, None without one. Raises ContextsUnusable."""
    try:
        with file.open(encoding="utf-8") as opened:
            if os.fstat(opened.fileno()).st_mode & _OTHERS:
                raise ContextsUnusable(f"others can read or change {file}: `chmod 600` it, and change its tokens")
            return opened.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ContextsUnusable(f"{file} is not UTF-8 text: remove it, and sign in again") from error
