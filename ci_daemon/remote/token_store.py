"""The tokens of contexts: in the system's keyring, or where there is none, in a file of the owner's."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING

from ci_daemon.host.private_file import write_private
from ci_daemon.remote.contexts import ContextsUnusable, read_private

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.remote.contexts import Context

_FILE = "tokens.json"
_SERVICE = "ci-daemon"
_USABLE_PRIORITY = 1
"""The least priority of a keyring that its library recommends; others store plain text, or nothing."""


class TokenPlace(StrEnum):
    """The place of a context's token."""

    KEYRING = "keyring"
    FILE = "file"


class TokenStore:
    """Keeps one token for each name and URL, so that a token never goes to another server.

    The caller holds the lock of the folder. The keyring's library is imported at its first use, because that takes
    longer than reading a file.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE

    def keep(self, name: str, url: str, token: str) -> TokenPlace:
        """Store a token, in the keyring if there is one that works."""
        if _keep_in_keyring(_key(name, url), token):
            return TokenPlace.KEYRING
        self._write({**self._read(), _key(name, url): token})
        return TokenPlace.FILE

    def find(self, context: Context) -> str | None:
        """Return the token of a context, None if it is gone. Raises ContextsUnusable."""
        key = _key(context.name, context.url)
        if context.token_place != TokenPlace.KEYRING:
            return self._read().get(key)
        import keyring  # noqa: PLC0415 - as the class says
        from keyring.errors import KeyringError  # noqa: PLC0415 - the same

        try:
            return keyring.get_password(_SERVICE, key)
        except KeyringError as error:
            raise ContextsUnusable(f"the keyring did not give the token of {context.name}: {error}") from error

    def forget(self, context: Context) -> None:
        """Remove the token of a context, if it is there. Raises ContextsUnusable."""
        key = _key(context.name, context.url)
        if context.token_place != TokenPlace.KEYRING:
            tokens = self._read()
            if tokens.pop(key, None) is not None:
                self._write(tokens)
            return
        import keyring  # noqa: PLC0415 - as the class says
        from keyring.errors import KeyringError, PasswordDeleteError  # noqa: PLC0415 - the same

        try:
            keyring.delete_password(_SERVICE, key)
        except PasswordDeleteError:
            return
        except KeyringError as error:
            raise ContextsUnusable(f"the keyring did not remove the token of {context.name}: {error}") from error

    def _read(self) -> dict[str, str]:
        try:
            tokens: dict[str, str] = json.loads(read_private(self._file) or "{}")
        except ValueError as error:
            raise ContextsUnusable(f"{self._file} is damaged: remove it, and sign in again") from error
        return tokens

    def _write(self, tokens: dict[str, str]) -> None:
        write_private(self._file, json.dumps(tokens, indent=2) + "\n")


def _keep_in_keyring(key: str, token: str) -> bool:
    """Store a token in the system's keyring, if one works; tell whether it did."""
    import keyring  # noqa: PLC0415 - as `TokenStore` says
    from keyring.errors import KeyringError  # noqa: PLC0415 - the same

    if keyring.get_keyring().priority < _USABLE_PRIORITY:
        return False
    try:
        keyring.set_password(_SERVICE, key, token)
    except KeyringError:
        return False
    return True


def _key(name: str, url: str) -> str:
    return f"{name} {url}"
