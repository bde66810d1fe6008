"""Names in text: ``${{ matrix.django }}`` is replaced as a pipeline is planned. Pure.

A name is no expression: there are no operators and no functions. In ``run`` only values that the file itself gives are
replaced, because a branch or a title that a stranger chooses must not become a command.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NAME = re.compile(r"\$\{\{([^{}]*)\}\}")
_OPEN = "${{"
_PLAIN = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*")
_MAX_CHARS = 80
_MOST_LOOKED_AT = 200


def unknown_names(text: str, known: Collection[str]) -> list[str]:
    """Return a sentence for each name in a text that is not known."""
    found = []
    rest = _NAME.sub("", text)
    for match in _NAME.finditer(text):
        plain = _PLAIN.fullmatch(match[1])
        if plain is None:
            shown = quoted(match[1].strip()[:_MAX_CHARS])
            found.append(f"expected a name in ${{{{ }}}}, got {shown}: there are no operators and no functions")
        elif plain[1] not in known:
            found.append(f"unknown name {quoted(plain[1])}{nearest(plain[1], known)}")
    if _OPEN in rest:
        found.append('"${{" has no "}}": a name ends with it, and a command can have "$" and "{{" apart')
    return found


def has_names(text: str) -> bool:
    """Tell whether a name begins in a text."""
    return _OPEN in text


def names_in(text: str) -> list[str]:
    """Return the names in a text, in its order, without those that are no names."""
    plain = (_PLAIN.fullmatch(match[1]) for match in _NAME.finditer(text))
    return [each[1] for each in plain if each is not None]


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its names replaced, all of which are known."""
    return _NAME.sub(lambda match: values[match[1].strip()], text) if has_names(text) else text


def nearest(word: str, known: Collection[str]) -> str:
    """Return a question after the nearest known word, or what there is; empty if there is nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes

    some = [each[:_MAX_CHARS] for each in islice(sorted(known), _MOST_LOOKED_AT)]
    near = get_close_matches(word[:_MAX_CHARS].lower(), some, n=1, cutoff=0.6)
    if near:
        return f": did you mean {quoted(near[0])}?"
    few = sorted(known)
    return f": there is {', '.join(map(quoted, few))}" if 0 < len(few) <= 6 else ""  # noqa: PLR2004 - as one line takes
