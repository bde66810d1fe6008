"""A whole `ci-daemon.toml` with every key at its default, commented out, made from the sections themselves."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from ci_daemon.config.sections import Config
from ci_daemon.config.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["commented_configuration"]

_WIDTH = 100
_HEAD = """\
The configuration of ci-daemon. Every key stands here at its default, commented out: take the # away to change one.

A key may also be set in the environment, which wins over this file: CI_DAEMON_POOL_WARM is warm of [pool].
`ci-daemon config check` says what is wrong with this file, `ci-daemon config show` what is in effect and why.
"""


def commented_configuration() -> str:
    """Return the text of a configuration file that changes nothing, and says of every key what it is."""
    return "\n".join([*_comment(_HEAD), *_tables(Config(), ())]) + "\n"


def _tables(section: Any, above: tuple[str, ...]) -> Iterator[str]:  # noqa: ANN401 - a settings class, of any section
    keys = [each for each in fields(section) if not is_dataclass(getattr(section, each.name))]
    if keys:
        yield from ("", f"[{'.'.join(above)}]", *_comment(_description(type(section))))
        yield from (f"#{key.name} = {spelled(_example(key, section))}" for key in keys)
    for each in fields(section):
        value = getattr(section, each.name)
        if is_dataclass(value):
            yield from _tables(value, (*above, each.name))


def _example(key: Field[Any], section: object) -> object:
    """Return a key's default; of one that is not set by default, which TOML cannot say, the example of its field."""
    value = getattr(section, key.name)
    return key.metadata["example"] if value is None else value


def _description(section: type) -> str:
    """Return what a class says of its keys, without the marks that only its source needs."""
    text = re.sub(r"^Section ``\[\w+\]``: ", "", inspect.cleandoc(section.__doc__ or "")).replace("``", "")
    return text[:1].upper() + text[1:]


def _comment(text: str) -> list[str]:
    paragraphs = (textwrap.wrap(each, _WIDTH, break_on_hyphens=False) for each in text.strip().split("\n\n"))
    blocks = ("\n".join(f"# {line}" for line in lines) for lines in paragraphs)
    return "\n#\n".join(blocks).splitlines()
