"""Kinds of files that a page can show, by their first bytes; pure."""

from __future__ import annotations

import codecs

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SVG = "image/svg+xml"
_WEBP = slice(8, 12)


def image_type(path: str, head: bytes) -> str | None:
    """Return the type of an image that browsers show; None for every other file.

    Only an SVG needs its name: its bytes are those of any text.
    """
    for magic, media_type in _IMAGES.items():
        if head.startswith(magic):
            return media_type
    if head.startswith(b"RIFF") and head[_WEBP] == b"WEBP":
        return "image/webp"
    return _SVG if path.lower().endswith(".svg") and b"<svg" in head else None


def text_of(head: bytes) -> str | None:
    """Return the beginning of a file as text, if it is UTF-8 without a zero byte.

    The last character may be cut.
    """
    if b"\0" in head:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return None
