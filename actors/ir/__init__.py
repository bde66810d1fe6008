"""The v0 pipeline IR: from its text to a plan, or to the one error that says what is wrong with it.

Pure: no I/O, no clock, usable from any thread (pipeline-ir.md). Only the settings are imported before they are used.
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
