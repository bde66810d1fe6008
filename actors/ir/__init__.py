"""The v0 pipeline IR: parses its text into a plan, or reports its first error.

Pure: no I/O, no clock, safe in any thread (pipeline-ir.md). All but the limits and the error is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actors.ir.errors import IrError
from actors.ir.limits import Limits

if TYPE_CHECKING:
    from actors.ir.definition import Plan, PlannedJob
    from actors.ir.planning import load, parse, plan

__all__ = ["IrError", "Limits", "Plan", "PlannedJob", "load", "parse", "plan"]

_LATER = {
    "Plan": "actors.ir.definition",
    "PlannedJob": "actors.ir.definition",
    "load": "actors.ir.planning",
    "parse": "actors.ir.planning",
    "plan": "actors.ir.planning",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
