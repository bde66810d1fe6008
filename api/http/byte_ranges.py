"""``Range`` headers for bytes (RFC 9110, section 14). Pure."""

from __future__ import annotations

import re

from storage import immutable

# Considered: falcon's `Request.range` refuses several ranges with 400, although a server may ignore them. WebOb's
# `Range` takes the first of several, and the last 0 bytes for the whole. Werkzeug's `range_for_length` returns None
# both for ranges to ignore (200) and for one beyond the end (416).

_NUMBER = "([0-9]{1,1000})"
_ONE_RANGE = re.compile(
    rf"bytes=[ \t]*(?:{_NUMBER}-{_NUMBER}?|-{_NUMBER})[ \t]*",
    re.ASCII | re.IGNORECASE,
)


@immutable
class ByteRange:
    """One requested range: ``first`` to ``last`` (inclusive) or the end, or the last ``suffix`` bytes."""

    first: int = 0
    last: int | None = None
    suffix: int | None = None

    def within(self, size: int) -> tuple[int, int] | None:
        """Return the range of ``size`` bytes as start and end (exclusive); None if it has none of them."""
        if self.suffix is not None:
            return (max(0, size - self.suffix), size) if size and self.suffix else None
        if self.first >= size:
            return None
        return self.first, size if self.last is None else min(self.last + 1, size)


def parse_range(header: str | None) -> ByteRange | None:
    """Parse a ``Range`` header; None if it is absent, malformed, not in bytes, or of several ranges."""
    match = _ONE_RANGE.fullmatch(header or "")
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return ByteRange(suffix=int(suffix))
    if last is not None and int(last) < int(first):
        return None
    return ByteRange(int(first), None if last is None else int(last))
