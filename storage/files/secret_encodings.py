"""The forms in which a secret may appear in output: plain, and as programs encode it. Pure."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["secret_encodings"]

_WIDTHS = (64, 76)
_MIN_LENGTH = 8
"""Least length of a line or base64 fragment to mask; a shorter one may be a common word."""

_URI_COMPONENT = "!'()*"
_URI = ";,/?:@&=+$#" + _URI_COMPONENT
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def secret_encodings(value: str) -> frozenset[bytes]:
    """Return the byte strings to mask so that ``value`` cannot be read; none is empty.

    They are the value itself, with and without its trailing line breaks, each of its longer lines, its base64 at any
    offset in the encoded data, its percent-encodings, and its JSON forms. An empty value has none.
    """
    bare = value.rstrip("\r\n")
    forms = {value, bare, *_lines(value)}
    for text in {value, bare}:
        forms.update(_percent_encoded(text))
        forms.update(_in_json(text))
        forms.update(_within_base64(text.encode()))
    for text in {value, bare, f"{value}\n", f"{bare}\n"}:
        forms.update(_base64(text.encode()))
    return frozenset(form.encode() for form in forms if form) if value else frozenset()


def _lines(value: str) -> Iterator[str]:
    return (line for line in map(str.strip, value.split("\n")) if len(line) >= _MIN_LENGTH)


def _base64(data: bytes) -> Iterator[str]:
    """Yield the base64 of ``data`` alone: padded and unpadded, on one line and wrapped."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(data).decode()
        yield from (text, text.rstrip("="))
        for width in _WIDTHS:
            yield "\n".join(text[start : start + width] for start in range(0, len(text), width))


def _within_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 digits that depend on ``data`` alone, for each offset in a group of three bytes."""
    for before in range(3):
        first, end = -(-8 * before // 6), 8 * (before + len(data)) // 6
        if end - first >= _MIN_LENGTH:
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                yield encode(bytes(before) + data).decode()[first:end]


def _percent_encoded(value: str) -> Iterator[str]:
    """Yield a value's encodings in URLs and forms; encoders differ in the characters they keep."""
    plain = (quote(value, safe) for safe in ("", "/", _URI_COMPONENT, _URI))
    forms = (quote_plus(value, safe) for safe in ("", "*"))
    for text in {*plain, *forms}:
        for each in (text, text.replace("~", "%7E")):
            yield each
            yield _ESCAPE.sub(lambda escape: escape[0].lower(), each)
    if everything := value.encode().hex("%"):
        yield from (f"%{everything}", f"%{everything.upper()}")


def _in_json(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield text
        yield text.replace("/", r"\/")
        yield text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
