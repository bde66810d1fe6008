"""Values that a build gives the inputs of one that follows it (pipeline-ir.md, "Triggers"). Pure."""

from __future__ import annotations

from typing import NamedTuple

from storage import pattern

_INPUT = pattern(r"inputs\.([A-Za-z][A-Za-z0-9_-]{0,62})")
_OUTPUT = pattern(r"outputs\.([^\x00-\x1f]{1,255})\.([A-Za-z_][A-Za-z0-9_]{0,254})")
UPSTREAM_PATTERN = r"^(inputs\.[A-Za-z][A-Za-z0-9_-]{0,62}|outputs\..{1,255}\.[A-Za-z_][A-Za-z0-9_]{0,254})$"
"""The pattern of the text of a value, for schemas."""


class UpstreamValue(NamedTuple):
    """The input of a build by its name, or the output of its ``job``."""

    name: str
    job: str | None = None

    @classmethod
    def of(cls, text: str) -> UpstreamValue | None:
        """Return the value that a text names, as in ``outputs.package.VERSION``; None if it names none.

        A job's key may have dots, the name of an output has none.
        """
        if (found := _INPUT.fullmatch(text)) is not None:
            return cls(found[1])
        found = _OUTPUT.fullmatch(text)
        return None if found is None else cls(found[2], found[1])
