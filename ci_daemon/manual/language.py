"""The reference of the language in Markdown, its JSON Schema, and its keys in Python.

``python -m ci_daemon.manual.language PAGE SCHEMA MODULE`` replaces everything after the markers in PAGE and MODULE, and
writes SCHEMA; ``make docs`` runs it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from actors.ir import json_schema, language_reference, python_keys

_MARKER = "<!-- Everything below is made by `make docs` from the model. -->\n"
_MODULE_MARKER = "# Everything below is made by `make docs` from the model.\n"


def with_language(page: str) -> str:
    """Return the page with a current reference below its marker. Raises ValueError without a marker."""
    head, marker, _ = page.partition(_MARKER)
    if not marker:
        raise ValueError(f"there is no line {_MARKER.strip()}")
    return f"{head}{marker}\n{language_reference()}"


def with_keys(module: str) -> str:
    """Return the language's module in Python with current keys below its marker."""
    head, marker, _ = module.partition(_MODULE_MARKER)
    return f"{head}{marker}\n\n{python_keys()}"


def schema_text() -> str:
    """Return the JSON Schema as a file."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    page, schema, module = map(Path, sys.argv[1:])
    page.write_text(with_language(page.read_text(encoding="utf-8")), encoding="utf-8")
    schema.write_text(schema_text(), encoding="utf-8")
    module.write_text(with_keys(module.read_text(encoding="utf-8")), encoding="utf-8")
