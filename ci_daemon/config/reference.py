"""The reference of every section and key in Markdown.

``python -m ci_daemon.config.reference PAGE`` replaces everything after the marker in PAGE; ``make docs`` runs it on
`docs/configuration.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from ci_daemon.config.declarations import sections
from ci_daemon.config.spelling import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.config.declarations import Key, Section

__all__ = ["renewed"]

_MARKER = "<!-- Everything below is made by `make docs` from the settings classes. -->\n"
_TYPES = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "string",
    Path: "path",
}


def renewed(page: str) -> str:
    """Return the page with a current reference below its marker. Raises ValueError without a marker."""
    head, marker, _ = page.partition(_MARKER)
    if not marker:
        raise ValueError(f"there is no line {_MARKER.strip()}")
    return "\n".join([head + marker, *(line for section in sections() for line in _chapter(section))])


def _chapter(section: Section) -> Iterator[str]:
    yield f"## `[{section.name}]`\n"
    for paragraph in section.paragraphs:
        yield paragraph.replace("``", "`") + "\n"
    yield "| Key | Type | Default |"
    yield "|---|---|---|"
    yield from (f"| `{key.name}` | {_type_name(key.type)} | {_default(key)} |" for key in section.keys)
    yield ""


def _type_name(annotation: Any) -> str:  # noqa: ANN401 - a type expression
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{spelled(value)}`" for value in get_args(annotation))
    if get_origin(annotation) is Mapping:
        return f"table of {_TYPES[get_args(annotation)[1]]}s"
    if get_origin(annotation) is tuple:
        return f"list of {_TYPES[get_args(annotation)[0]]}s"
    required, *_ = get_args(annotation) or (annotation,)
    return _TYPES[required]


def _default(key: Key) -> str:
    if key.default is None:
        return f"not set; for example `{spelled(key.example)}`"
    return f"`{spelled(key.default)}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
