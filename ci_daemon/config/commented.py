"""A complete `ci-daemon.toml` with every key at its default, commented out."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ci_daemon.config.keys import sections
from ci_daemon.config.validation import describe_type, to_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_daemon.config.keys import Section

_WIDTH = 100
_HEADER = """\
The configuration of ci-daemon. Every key is shown at its default, commented out: remove the # to change one.

A key may also be set in the environment, which wins over this file: CI_DAEMON_POOL_PARKED is parked of [pool].
`ci-daemon config check` finds mistakes in this file, `ci-daemon config show` prints the values in effect and where
each comes from."""


def commented_configuration() -> str:
    """Return the text of a configuration file that changes nothing and describes every key."""
    lines = [*_comment(_HEADER.split("\n\n"))]
    for section in sections():
        lines += _table(section)
    return "\n".join(lines) + "\n"


def _table(section: Section) -> Iterator[str]:
    # Without its required keys a named section would be a mistake.
    head = f"#[{section.name.replace('NAME', 'example')}]" if section.named else f"[{section.name}]"
    yield from ("", head)
    yield from _comment(section.paragraphs)
    for key in section.keys:
        yield ""
        restart = "" if key.live else " A change needs a restart."
        yield from _comment([f"{key.description} Accepts {describe_type(key.type, key.range)}.{restart}"])
        yield f"#{key.name} = {to_toml(key.example)}"


def _comment(paragraphs: Iterable[str]) -> list[str]:
    wrapped = (textwrap.wrap(each.replace("`", ""), _WIDTH, break_on_hyphens=False) for each in paragraphs)
    paragraphs = ("\n".join(f"# {line}" for line in lines) for lines in wrapped)
    return "\n#\n".join(paragraphs).splitlines()
