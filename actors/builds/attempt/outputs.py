"""Outputs of a job: what its command writes to ``$CI_OUTPUT``, as variables of the jobs that need it.

See engine.md, "Outputs". Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage import GivenOutputs, Masker

FILE = "output"
MAX_BYTES = 1 << 16
_MOST = 100
_SHOWN = 5
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAX_NAME_CHARS = 100
_NO_TEXT = pattern(r"[\0\ud800-\udfff]")
_OF_SERVICE = pattern(r"CI(_.*)?")


@immutable
class WrittenOutputs:
    """The variables that a command has written, and a sentence for each that cannot be one."""

    variables: Mapping[str, str]
    faults: tuple[str, ...]

    @property
    def error(self) -> str | None:
        """Why some cannot be variables, None if all are."""
        if not self.faults:
            return None
        more = f"; and {len(self.faults) - _SHOWN:,} more" if len(self.faults) > _SHOWN else ""
        return f"$CI_OUTPUT cannot be used: {'; '.join(self.faults[:_SHOWN])}{more}"


def written_outputs(content: bytes, size: int, masker: Masker) -> WrittenOutputs:
    """Return the outputs in the first bytes of a file of this size.

    They are lines ``NAME=value``, of which the last of a name counts. A secret is in no output: who reads these may not
    be who may read it.
    """
    if size > len(content):
        return WrittenOutputs({}, (f"it has {size:,} bytes of at most {MAX_BYTES:,}: give large values as artifacts",))
    found: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        name, equals, value = line.decode("utf-8", "surrogateescape").partition("=")
        if not equals or not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
            faults.append(f"line {number:,} is not NAME=value")
        elif (why := _why_no_output(name, value, masker)) is not None:
            faults.append(f"{masker.masked(name)} {why}")
            found.pop(name, None)
        else:
            found[name] = value
    if len(found) > _MOST:
        return WrittenOutputs({}, (*faults, f"it has {len(found):,} names of at most {_MOST}"))
    return WrittenOutputs(found, tuple(faults))


def _why_no_output(name: str, value: str, masker: Masker) -> str | None:
    if _OF_SERVICE.fullmatch(name):
        return "is a name of the service's own"
    if _NO_TEXT.search(value):
        return "has a value that is no text in UTF-8"
    if masker.masked(f"{name}={value}") != f"{name}={value}":
        return "has a secret in it"
    return None


def variables_of(given: Iterable[GivenOutputs]) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a job that needs these, and a line for each name that two of them give.

    Equal values are told by no line. The later one in the order of the build counts.
    """
    found: dict[str, tuple[str, str]] = {}
    lines: list[str] = []
    for each in given:
        for name, value in each.variables.items():
            if name in found and found[name][1] != value:
                lines.append(f'{name} is the output of "{each.step_key}": "{found[name][0]}" gives another value')
            found[name] = each.step_key, value
    return {name: value for name, (_, value) in found.items()}, lines
