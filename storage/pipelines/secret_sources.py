"""Places from which values of secrets are fetched as a job starts, and what is wrong with some. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from storage.errors import SecretInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = {
    "vault": ({"url", "path", "role", "field"}, {"audience", "mount", "auth_mount"}),
    "http": ({"url"}, {"audience", "field"}),
}
"""By kind, the fields that a source needs, and those that it may have."""

_DEFAULTS = {"vault": {"mount": "secret", "auth_mount": "jwt"}, "http": {}}
_MAX_CHARS = 2000
_NO_ADDRESS = "source: expected an address such as https://vault.example.org, without a user name"


def checked_source(given: Mapping[str, str]) -> dict[str, str]:
    """Return a source with its defaults: the audience is the address' own beginning. Raises SecretInvalid."""
    kind = given.get("kind", "")
    if kind not in _FIELDS:
        raise SecretInvalid(f"source: expected the kind {' or '.join(_FIELDS)}, not {kind!r:.50}")
    needed, optional = _FIELDS[kind]
    if missing := sorted(needed - given.keys()):
        raise SecretInvalid(f"source: expected {', '.join(missing)} for {kind}")
    if unknown := sorted(given.keys() - needed - optional - {"kind"}):
        raise SecretInvalid(f"source: {kind} has no {', '.join(unknown)}")
    for name, value in given.items():
        if not 1 <= len(value) <= _MAX_CHARS or not value.isascii() or not value.isprintable() or " " in value:
            raise SecretInvalid(f"source: expected {name} of 1 to {_MAX_CHARS} ASCII characters without spaces")
    for name in ("path", "mount", "auth_mount"):
        if any(part in {"", ".", ".."} for part in given.get(name, "x").split("/")) or set("?#%\\") & set(
            given.get(name, "")
        ):
            raise SecretInvalid(f"source: expected {name} such as team/web, without empty parts, ?, # and %")
    return {**_DEFAULTS[kind], "audience": _origin(given["url"]), **given}


def _origin(url: str) -> str:
    """Return the scheme and host of an address without credentials. Raises SecretInvalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SecretInvalid(_NO_ADDRESS) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise SecretInvalid(_NO_ADDRESS)
    return f"{parts.scheme}://{parts.netloc}"
