"""The outline of a log: how many lines each block has, and the groups of lines; grows with the log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from api.http.files import ByteSource

BLOCK_BYTES = 64 * 2**10
_PIECE_BYTES = 2**20
_MOST_GROUPS = 2000
_LONGEST_PART = 4096
_MARK = re.compile(rb"^(?:\x1b\[[0-9;]*m)*::(?:(end)group::|group::([^\r\n]{0,200}))", re.MULTILINE)


@dataclass(slots=True)
class Group:
    """Lines from ``::group::TITLE`` to ``::endgroup::``, from 0; ``last`` is None if it has no end yet."""

    title: str
    first: int
    last: int | None = None


@dataclass(slots=True)
class LogOutline:
    """The outline of the first ``size`` bytes of a log. Not safe in several threads at once.

    ``newlines`` has the number of line breaks in each block of ``BLOCK_BYTES``, so that a line is found without reading
    the log up to it.
    """

    size: int = 0
    newlines: list[int] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    ends_in_break: bool = False
    _open: list[Group] = field(default_factory=list)
    _lines: int = 0
    _part: bytes = b""

    def extend(self, log: ByteSource, size: int) -> None:
        """Read on up to a size."""
        while self.size < size:
            data = log.read(self.size, min(_PIECE_BYTES, size - self.size))
            if not data:
                return
            self._find_groups(data)
            self._lines += self._count(data)
            self.size += len(data)
            self.ends_in_break = data.endswith(b"\n")

    def _count(self, data: bytes) -> int:
        """Note the line breaks of each block; return how many there are."""
        at = breaks = 0
        while at < len(data):
            block, within = divmod(self.size + at, BLOCK_BYTES)
            end = min(len(data), at + BLOCK_BYTES - within)
            if block == len(self.newlines):
                self.newlines.append(0)
            found = data.count(b"\n", at, end)
            self.newlines[block] += found
            breaks += found
            at = end
        return breaks

    def _find_groups(self, data: bytes) -> None:
        """Note the groups that begin or end in whole lines; the rest of the last line waits for more."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._part = (self._part + data)[:_LONGEST_PART]
            return
        text = self._part + data[:end]
        if b"group::" in text:
            at, line = 0, self._lines
            for mark in _MARK.finditer(text):
                line += text.count(b"\n", at, mark.start())
                at = mark.start()
                self._note(line, mark)
        self._part = data[end : end + _LONGEST_PART]

    def _note(self, line: int, mark: re.Match[bytes]) -> None:
        if mark[1]:
            if self._open:
                self._open.pop().last = line
        elif len(self.groups) < _MOST_GROUPS:
            group = Group(mark[2].decode("utf-8", "replace").strip(), line)
            self.groups.append(group)
            self._open.append(group)
