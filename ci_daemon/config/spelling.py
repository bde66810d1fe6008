"""Values in TOML syntax."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["spelled"]


def spelled(value: object) -> str:
    """Return a setting's value in TOML; a dash for None, which TOML cannot express."""
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
