"""Answers for the script of the log view; not part of the API's document."""

from __future__ import annotations

from storage import JsonModel


class GroupRecord(JsonModel):
    """A group of lines, from 0; ``last`` is null while it has no end."""

    title: str
    first: int
    last: int | None


class OutlineRecord(JsonModel):
    """The line breaks in each block of the log's first ``size`` bytes.

    With ``more`` there are bytes after those, which the next request reads. ``complete`` if the log does not grow.
    """

    size: int
    block: int
    newlines: list[int]
    groups: list[GroupRecord]
    ends_in_break: bool
    complete: bool
    more: bool


class SearchRecord(JsonModel):
    """The number of lines that have the text, and the first of them, from 0."""

    count: int
    lines: list[int]


class TimesRecord(JsonModel):
    """For pieces of the log their end and their time in milliseconds since the epoch."""

    times: list[tuple[int, int]]
