"""The reference of every section and key in Markdown.

``python -m ci_daemon.config.reference PAGE`` replaces everything after the marker in PAGE; ``make docs`` runs it on
`docs/configuration.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.config.keys import sections
from ci_daemon.config.validation import describe_type, to_toml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.config.keys import Key, Section

_MARKER = "<!-- Everything below is made by `make docs` from the settings classes. -->\n"


def with_reference(page: str) -> str:
    """Return the page with a current reference below its marker. Raises ValueError without a marker."""
    head, marker, _ = page.partition(_MARKER)
    if not marker:
        raise ValueError(f"there is no line {_MARKER.strip()}")
    return "\n".join([head + marker, *(line for section in sections() for line in _section_lines(section))])


def _section_lines(section: Section) -> Iterator[str]:
    yield f"## `[{section.name}]`\n"
    for paragraph in section.paragraphs:
        yield f"{paragraph}\n"
    yield "| Key | Value | Default | Applied by | Description |"
    yield "|---|---|---|---|---|"
    for key in section.keys:
        accepted = describe_type(key.type, key.range).removeprefix("a ")
        applied_by = "reload" if key.live else "restart"
        yield f"| `{key.name}` | {accepted} | {_default(key)} | {applied_by} | {key.description} |"
    yield ""


def _default(key: Key) -> str:
    if key.required:
        return f"required; for example `{to_toml(key.example)}`"
    if key.default is None:
        return f"not set; for example `{to_toml(key.example)}`"
    return f"`{to_toml(key.default)}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_reference(file.read_text(encoding="utf-8")), encoding="utf-8")
