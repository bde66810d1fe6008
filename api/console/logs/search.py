"""Search in a whole log, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from api.http.files import ByteSource

_PIECE_BYTES = 2**20


@immutable
class Found:
    """The number of lines that have the text, and which are the first of them, from 0."""

    count: int
    lines: tuple[int, ...]


def search(log: ByteSource, size: int, text: str, most: int) -> Found:
    """Return the lines of a log's first ``size`` bytes that have a text; the case of ASCII is ignored.

    Of a line that is longer than a piece, only its pieces are searched.
    """
    wanted = text.encode().lower()
    lines: list[int] = []
    count = line = at = 0
    rest = b""
    while at < size:
        data = log.read(at, min(_PIECE_BYTES, size - at))
        if not data:
            break
        at += len(data)
        piece = rest + data.lower()
        end = piece.rfind(b"\n") + 1 if at < size and len(rest) < _PIECE_BYTES else len(piece)
        piece, rest = piece[:end], piece[end:]
        counted = 0
        found = piece.find(wanted)
        while found >= 0:
            line += piece.count(b"\n", counted, found)
            counted = found
            count += 1
            if len(lines) < most:
                lines.append(line)
            after = piece.find(b"\n", found)
            found = piece.find(wanted, after) if after >= 0 else -1
        line += piece.count(b"\n", counted)
    return Found(count, tuple(lines))
