"""Values in the place of ``${NAME}``, which Woodpecker and Drone put in before they read a file. Pure.

Of what is known only in a build, the shell makes the value here: a name that a stranger chooses is never part of a
command. So it has to stand where the shell puts values in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import word
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PARTS = re.compile(r"\$\$|\$\{([^{}]*)\}")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(.*)", re.DOTALL)
_SHELLS_OWN = re.compile(r"[#%]{1,2}[\w./*+-]+|:?-[\w./-]*")
"""Endings of a reference that mean the same in each shell."""

_PART = re.compile(r":(\d{1,4}):(\d{1,4})")
"""The part of a value from a place on, which only some shells can take."""

_QUOTED_DOCUMENT = re.compile(r"<<-?\s*['\"\\]")


class Unsayable(Exception):
    """A text has something in the place of which no value is known."""


@immutable
class Substitution:
    """The values of one cell of a matrix, and the words of the shell that have those of a build."""

    system: str
    values: Mapping[str, str]
    words: Mapping[str, str]

    def plain(self, text: str) -> str:
        """Return a text with all values in it. Raises Unsayable if one is known only in a build."""
        found = []
        for before, name, rest in self._references(text):
            found.append(before)
            if name is not None:
                found.append(self._value(name, rest))
        return "".join(found)

    def word(self, text: str) -> tuple[str, bool]:
        """Return the text itself and False, or a word of the shell that makes it, and True. Raises Unsayable."""
        parts: list[tuple[str, bool]] = []
        for before, name, rest in self._references(text):
            parts.append((before, False))
            if name is not None and name in self.words:
                if rest:
                    message = f"${{{name}{rest}}} has no counterpart in a value: write it in the command"
                    raise Unsayable(message)
                parts.append((self.words[name], True))
            elif name is not None:
                parts.append((self._value(name, rest), False))
        if not any(is_word for _, is_word in parts):
            return "".join(part for part, _ in parts), False
        return "".join(part if is_word else word(part) for part, is_word in parts if part), True

    def script(self, text: str) -> str:
        """Return a script in which the shell puts the values in. Raises Unsayable."""
        found = []
        for before, name, rest in self._references(text):
            found.append(before)
            if name is None:
                continue
            if name in self.words:
                part = _PART.fullmatch(rest)
                if rest and part is None and not _SHELLS_OWN.fullmatch(rest):
                    message = f"${{{name}{rest}}} means something else in the shell"
                    raise Unsayable(message)
                if not is_expanded("".join(found)):
                    message = f"the shell may put no value in the place of ${{{name}}} there: write it in double quotes"
                    raise Unsayable(message)
                found.append(f"${{{name}{rest}}}" if part is None else _part(name, int(part[1]), int(part[2])))
            else:
                found.append(self._value(name, rest))
        return "".join(found)

    def _value(self, name: str, rest: str) -> str:
        if name in self.values and not rest:
            return self.values[name]
        known = name in self.values or name in self.words
        message = (
            f"${{{name}{rest}}} is known only in a build"
            if known
            else f"{self.system} puts nothing in the place of ${{{name}}}: write ${name} for a variable of the shell"
        )
        raise Unsayable(message)

    def _references(self, text: str) -> Iterator[tuple[str, str | None, str]]:
        """Yield what stands before each name, the name, and what stands behind it within the braces."""
        before: list[str] = []
        at = 0
        for found in _PARTS.finditer(text):
            before.append(text[at : found.start()])
            at = found.end()
            if found[0] == "$$":
                before.append("$")
                continue
            reference = _REFERENCE.fullmatch(found[1])
            if reference is None:
                message = f"{found[0][:40]} is not known here"
                raise Unsayable(message)
            yield "".join(before), reference[1], reference[2]
            before = []
        before.append(text[at:])
        yield "".join(before), None, ""


def _part(name: str, begin: int, length: int) -> str:
    return f'$(printf %s "${name}" | cut -c{begin + 1}-{begin + length})'


def is_expanded(before: str) -> bool:
    """Tell whether the shell expands what follows, as far as that is certain."""
    if _QUOTED_DOCUMENT.search(before) or before.endswith(("\\", "$")):
        return False
    if "'" not in before:
        return True
    if "$(" in before or "`" in before or "#" in before:  # quotes within these are others
        return False
    single = double = escaped = False
    for each in before:
        if escaped:
            escaped = False
        elif each == "\\" and not single:
            escaped = True
        elif each == "'" and not double:
            single = not single
        elif each == '"' and not single:
            double = not double
    return not single
