"""Texts with expressions of GitHub, of which only values of the matrix are certain. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

__all__ = ["UnknownExpression", "filled", "literals"]

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_MATRIX = re.compile(r"matrix\.([\w-]+)")


class UnknownExpression(Exception):
    """An expression that cannot be converted with certainty."""


def filled(text: str | None, cell: Mapping[str, str]) -> str:
    """Return a text with the values of a cell of the matrix in it. Raises UnknownExpression."""
    if text is None:
        message = "it is no text"
        raise UnknownExpression(message)

    def value(found: re.Match[str]) -> str:
        name = _MATRIX.fullmatch(found[1])
        if name is None or name[1] not in cell:
            message = f"the expression {found[0]} is not known here"
            raise UnknownExpression(message)
        return cell[name[1]]

    return _EXPRESSION.sub(value, text)


def literals(env: Located, key: str, omissions: Omissions, cell: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables whose values are known; the others are left out."""
    found: dict[str, str] = {}
    omissions.unknown(env, frozenset(env.mapping()), f"{key}.")
    for name, given in env.mapping().items():
        try:
            found[name] = filled(given.scalar, cell or {})
        except UnknownExpression as error:
            omissions.add(given, f"{key}.{name}", str(error))
    return found
