"""Every section and key of the configuration, as the settings classes declare them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from ci_daemon.config.sections import Config
from storage import Range, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Key", "Section", "sections"]


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its name, annotated type, range of numbers, default, and description in one sentence.

    ``example`` is the default if there is one. A ``live`` key is applied by a reload.
    """

    name: str
    type: Any
    range: Range
    default: object
    example: object
    description: str
    live: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One TOML table: its dotted name, paragraphs that describe it, and its keys."""

    name: str
    paragraphs: tuple[str, ...]
    keys: tuple[Key, ...]


def sections() -> Iterator[Section]:
    """Yield every section that has keys, each before the sections inside it."""
    return _sections_of(Config(), (), "")


def _sections_of(settings: Any, path: tuple[str, ...], description: str) -> Iterator[Section]:  # noqa: ANN401 - a settings class, of any section
    types = get_type_hints(type(settings))
    inner = [each for each in fields(settings) if is_dataclass(types[each.name])]
    keys = []
    for each in fields(settings):
        if each not in inner:
            declared, default = setting_declaration(each), getattr(settings, each.name)
            # TOML has no null for a key without a value.
            example = declared.example if default is None else default
            facts = declared.range, default, example, declared.description, declared.live
            keys.append(Key(each.name, types[each.name], *facts))
    if keys:
        yield Section(".".join(path), (description,) if description else _paragraphs(type(settings)), tuple(keys))
    for each in inner:
        yield from _sections_of(getattr(settings, each.name), (*path, each.name), setting_declaration(each).description)


def _paragraphs(settings: type) -> tuple[str, ...]:
    text = re.sub(r"^Section ``\[\w+\]``: ", "", inspect.cleandoc(settings.__doc__ or "")).replace("``", "`")
    return tuple(" ".join(each.split()) for each in (text[:1].upper() + text[1:]).split("\n\n"))
