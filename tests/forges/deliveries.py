"""Deliveries of hosts, from their documentation, with changes.

`tests/data/forges/README.md` has the addresses of the pages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent.parent / "data" / "forges"


def document(name: str) -> Any:
    """Return the JSON of a delivery."""
    return json.loads((_DATA / f"{name}.json").read_text())


def changed(name: str, changes: dict[str, Any]) -> bytes:
    """Return a delivery in which values at dotted places are replaced."""
    made = document(name)
    for place, value in changes.items():
        *above, last = place.split(".")
        found = made
        for key in above:
            found = found[key]
        found[last] = value
    return json.dumps(made).encode()
