"""Every section and key of the configuration, as the settings classes declare them."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from ci_daemon.config.sections import Config
from ci_daemon.config.validation import section_type
from storage import Range, immutable, setting_declaration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import Field


@immutable
class Key:
    """One key: its name, annotated type, range of numbers, default, and description in one sentence.

    ``example`` is the default if there is one. A ``live`` key is applied by a reload. A section that has a ``required``
    key without a value is refused.
    """

    name: str
    type: Any
    range: Range
    default: object
    example: object
    description: str
    live: bool
    required: bool = False


@immutable
class Section:
    """One TOML table: its dotted name, paragraphs that describe it, and its keys.

    The last part of the name of a ``named`` section stands for any name.
    """

    name: str
    paragraphs: tuple[str, ...]
    keys: tuple[Key, ...]
    named: bool = False


def sections() -> Iterator[Section]:
    """Yield every section that has keys, each before the sections inside it."""
    return _sections_of(Config(), (), "")


def _sections_of(settings: Any, path: tuple[str, ...], description: str) -> Iterator[Section]:  # noqa: ANN401 - a settings class, of any section
    types = get_type_hints(type(settings))
    inner = [each for each in fields(settings) if is_dataclass(types[each.name])]
    named = {each.name: section for each in fields(settings) if (section := section_type(types[each.name]))}
    keys = tuple(
        _key(each, types[each.name], getattr(settings, each.name))
        for each in fields(settings)
        if each not in inner and each.name not in named
    )
    if keys:
        yield Section(".".join(path), (description,) if description else _paragraphs(type(settings)), keys)
    for each in inner:
        yield from _sections_of(getattr(settings, each.name), (*path, each.name), setting_declaration(each).description)
    for name, section in named.items():
        types_of_section = get_type_hints(section)
        keys = tuple(_key(each, types_of_section[each.name], _default(each)) for each in fields(section))
        yield Section(".".join((*path, name, "NAME")), _paragraphs(section), keys, named=True)


def _key(declared: Field[Any], hint: object, default: object) -> Key:
    described = setting_declaration(declared)
    # TOML has no null for a key without a value.
    example = described.example if default is None else default
    facts = described.range, default, example, described.description, described.live
    return Key(declared.name, hint, *facts, required=declared.default is MISSING and default is None)


def _default(declared: Field[Any]) -> object:
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    return None if declared.default is MISSING else declared.default


def _paragraphs(settings: type) -> tuple[str, ...]:
    text = re.sub(r"^Section ``\[[\w.]+\]``: ", "", inspect.cleandoc(settings.__doc__ or "")).replace("``", "`")
    return tuple(" ".join(each.split()) for each in (text[:1].upper() + text[1:]).split("\n\n"))
