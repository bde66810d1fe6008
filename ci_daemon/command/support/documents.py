"""Bodies that commands send."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Return the body of those options that the caller gave."""
    return {name: value for name, value in options.items() if value is not None}
