"""Text of strangers in GitHub's Markdown: names of steps and lines of logs. Pure."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LONGEST_LINE = 500
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, and marks that turn the direction of text."""


def plain(text: str) -> str:
    """Return text that shows as it is, in one line: no mark-up, link, mention or cell of a table."""
    visible = "".join(" " if unicodedata.category(each) in _INVISIBLE else each for each in text)
    return "".join(
        f"&#{ord(each)};" if each.isascii() and not each.isalnum() and each != " " else each for each in visible
    )


def fenced(text: str) -> str:
    """Return a code block that none of its lines can end."""
    longest = max((len(each) for each in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def last_lines(log: bytes, count: int, most_characters: int) -> str:
    """Return the last lines of a log without colours, controls and blank lines at the end."""
    lines = []
    for line in _ESCAPES.sub("", log.decode(errors="replace")).rstrip().split("\n")[-count:]:
        shown = line.rstrip("\r").rpartition("\r")[2]  # a progress bar writes over itself
        kept = "".join(each for each in shown if each == "\t" or unicodedata.category(each) not in _INVISIBLE)
        lines.append(kept if len(kept) <= _LONGEST_LINE else f"{kept[:_LONGEST_LINE]}…")
    while len(lines) > 1 and sum(len(each) + 1 for each in lines) > most_characters:
        del lines[0]
    return "\n".join(lines)[-most_characters:]
