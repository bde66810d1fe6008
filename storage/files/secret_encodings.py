"""The forms in which a secret may appear in output: plain, and as programs encode it. Pure."""

from __future__ import annotations

import base64
import json
import re
import shlex
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from storage.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LEAST_LENGTH = 4
"""Least length of a secret between white space; without a shorter one, output could not be read."""

_WIDTHS = (64, 76)
_PIECE = 2048
_MOST_QUOTED = 8192
"""The most characters, in all, of values that are masked in every form, which takes much memory.

Longer ones are masked as shells trace them and as JSON has them.
"""
_MIN_LENGTH = 8
"""Least length of a line or base64 fragment to mask; a shorter one may be a common word."""

_URI_COMPONENT = "!'()*"
_URI = ";,/?:@&=+$#" + _URI_COMPONENT
_ESCAPE = pattern(r"%[0-9A-F]{2}")


def can_be_masked(value: str) -> bool:
    """True if a secret is long enough that output with it masked can still be read."""
    return len(value.strip()) >= LEAST_LENGTH


def secret_encodings(*values: str) -> frozenset[bytes]:
    """Return the byte strings to mask so that none of the values can be read; none is empty.

    They are a value itself, with and without its trailing line breaks, and each of its longer lines, all also as
    shells, Python, JSON, HTML and XML quote them; the value's base64 at any offset in the encoded data, and its
    percent-encodings. Long ones are in pieces, each of which is masked. A value that is too short has none.

    The shortest values are masked in every form, the rest in the usual ones, so that the time grows with their length.
    """
    left, forms = _MOST_QUOTED, set[bytes]()
    for value in sorted(filter(can_be_masked, values), key=len):
        left -= len(value)
        forms |= _encodings(value, _quoted if left >= 0 else _quoted_as_usual)
    return frozenset(forms)


def _encodings(value: str, quoted: Callable[[str], Iterable[str]]) -> set[bytes]:
    bare = value.rstrip("\r\n")
    forms: set[str] = set()
    for text in {value, bare, *_lines(value)}:
        forms.update(quoted(text))
    for text in {value, bare}:
        forms.update(_percent_encoded(text))
        forms.update(_within_base64(text.encode()))
    for text in {value, bare, f"{value}\n", f"{bare}\n"}:
        forms.update(_base64(text.encode()))
    return {piece for form in forms for piece in _pieces(form.encode(errors="replace"))}


def _pieces(form: bytes) -> Iterator[bytes]:
    """Cut a long form, so that no output waits for all of it; the last piece is longer than the others."""
    last = max(0, len(form) // _PIECE - 1) * _PIECE
    yield from (form[start : start + _PIECE] for start in range(0, last, _PIECE))
    yield form[last:]


def _lines(value: str) -> Iterator[str]:
    return (line for line in map(str.strip, value.split("\n")) if len(line) >= _MIN_LENGTH)


def _quoted(value: str) -> Iterator[str]:
    """Yield a value as it is, and as programs quote it that show it; without the quotes around it."""
    yield value
    if value.isalnum() and value.isascii():
        return
    yield from _in_shell(value)
    yield from _in_source_code(value)
    yield from _in_markup(value)
    yield from _in_json(value)


def _quoted_as_usual(value: str) -> Iterator[str]:
    """Yield a value as it is, and as traces of shells and JSON have it."""
    yield from (value, value.replace("'", "'\\''"))
    yield from (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def _in_shell(value: str) -> Iterator[str]:
    """Yield the forms that traces, `declare`, `printf %q` and `export` of usual shells print."""
    yield value.replace("'", "'\\''")
    yield shlex.quote(value)[1:-1]  # '"'"'
    yield re.sub("'+", lambda run: f"'\"{run[0]}\"'", value)
    for special in ('"\\$`', '"\\$`!'):  # within double quotes
        yield _backslashed(value, special)
    for special in _SHELL_SPECIAL:  # by backslashes alone
        text = _backslashed(value, special)
        yield from (text, _TILDE.sub(r"\\\g<0>", text))
    for ascii_only in (False, True):
        text = _ansi_c_quoted(value, ascii_only=ascii_only)
        yield from (text, text.replace("!", "\\!"))


_TILDE = pattern(r"^[~#]|(?<=[:=])~")
"""Characters that bash quotes at the beginning of a word, or where a path may begin."""

_SHELL_SPECIAL = (
    " !\"$&'()*,;<>?[\\]^`{|}",  # bash's `printf %q`
    " !\"$&'()*;<>?[\\]^`{|}",  # before 5.3
    " !\"#$&'()*;<=>?[\\]^`{|}~",  # zsh at a prompt
    " \"#$&'()*;<=>?[\\]^`{|}~",  # zsh
    " \"#$%&'()*;<>?[\\]{|}~",  # fish
    "\\",  # fish's `set --show`
)
"""The characters that shells show with a backslash."""

_ANSI_C = {
    "\a": "a",
    "\b": "b",
    "\t": "t",
    "\n": "n",
    "\v": "v",
    "\f": "f",
    "\r": "r",
    "\x1b": "E",
    "\\": "\\",
    "'": "'",
}


def _ansi_c_quoted(value: str, *, ascii_only: bool) -> str:
    """Return what shells write between `$'` and `'`: characters that cannot be shown are octal."""

    def quoted(char: str) -> str:
        if char in _ANSI_C:
            return f"\\{_ANSI_C[char]}"
        if char < " " or char == "\x7f" or (ascii_only and char > "~"):
            return "".join(f"\\{byte:03o}" for byte in char.encode())
        return char

    return "".join(map(quoted, value))


def _backslashed(value: str, special: str) -> str:
    return "".join(f"\\{char}" if char in special else char for char in value)


def _in_source_code(value: str) -> Iterator[str]:
    """Yield a value as literals have it: Python, and languages that double or escape a quote."""
    for text in (repr(value), ascii(value), repr(value.encode())[1:]):
        yield text[1:-1]
        yield text[1:-1].replace("\\'", "'").replace('"', '\\"')  # as if the other quotes were around it
    yield _backslashed(value, "\\'")
    yield _backslashed(value, '\\"')
    yield value.replace("'", "''")
    yield value.replace('"', '""')


def _in_markup(value: str) -> Iterator[str]:
    """Yield a value as text and attributes of HTML and XML have it; they differ in how they write quotes."""
    import html  # noqa: PLC0415 - its tables are large, and few processes mask

    text = html.escape(value, quote=False)
    for quotes, apostrophe in product(('"', "&quot;", "&#34;"), ("'", "&#x27;", "&#39;", "&#039;", "&apos;")):
        escaped = text.replace('"', quotes).replace("'", apostrophe)
        for each in (escaped, escaped.encode("ascii", "xmlcharrefreplace").decode()):
            yield each
            yield each.replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")


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
    """Yield a value as JSON has it, also JSON in a text of JSON."""
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        for once in _json_variants(text):
            yield once
            for ascii_again in {True, ascii_only}:
                yield from _json_variants(json.dumps(once, ensure_ascii=ascii_again)[1:-1])


def _json_variants(text: str) -> tuple[str, ...]:
    """Return a text of JSON, also as encoders write it whose output may stand in a page."""
    in_page = text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")
    return text, text.replace("/", r"\/"), in_page, in_page.replace("'", r"\u0027")
