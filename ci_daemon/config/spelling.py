"""Values as a TOML file spells them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["spelled"]


def spelled(value: object) -> str:
    """Return a value of a setting as TOML; of what is not set, which TOML has no word for, a dash."""
    match value:
        case None:
            return "-"
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case Mapping():
            inner = ", ".join(f"{spelled(str(key))} = {spelled(each)}" for key, each in value.items())
            return f"{{{inner}}}"
        case tuple() | list():
            return f"[{', '.join(spelled(each) for each in value)}]"
        case _:
            return json.dumps(value)
