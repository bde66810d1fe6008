"""Values in TOML syntax, and descriptions of types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from storage import Range

_NOUNS: Mapping[object, str] = {int: "whole number", float: "number", str: "string", Path: "path"}


def to_toml(value: object) -> str:
    """Return a setting's value in TOML; a dash for None, which TOML cannot express."""
    match value:
        case None:
            return "-"
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case Mapping():
            inner = ", ".join(f"{to_toml(str(key))} = {to_toml(each)}" for key, each in value.items())
            return f"{{{inner}}}"
        case tuple() | list():
            return f"[{', '.join(to_toml(each) for each in value)}]"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def describe_type(hint: object, accepted: Range) -> str:
    """Return the values that a key accepts, such as "a whole number from 1 to 9" or "a list of strings"."""
    hint = without_none(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if hint is bool:
        return "true or false"
    if origin is Literal:
        *others, last = map(to_toml, inner)
        return f"{', '.join(others)} or {last}"
    if origin is tuple:
        return f"a list of {_NOUNS[inner[0]]}s {accepted}".rstrip()
    if origin is Mapping:
        kind = _NOUNS.get(inner[1])
        return f"a table of {kind}s {accepted}".rstrip() if kind else f"a table of {describe_type(inner[1], accepted)}"
    return f"a {_NOUNS[hint]} {accepted}".rstrip()


def without_none(hint: object) -> object:
    """Return an annotated type without None, which TOML cannot express."""
    return get_args(hint)[0] if get_origin(hint) in {Union, UnionType} else hint
