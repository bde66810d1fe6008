"""The v0 pipeline IR: from its text to a plan, or to the one error that says what is wrong with it.

Pure: no I/O, no clock, usable from any thread (pipeline-ir.md).
"""

from __future__ import annotations

from actors.ir.definition import Plan, PlannedJob
from actors.ir.errors import IrError
from actors.ir.limits import Limits
from actors.ir.planning import load, parse, plan

__all__ = ["IrError", "Limits", "Plan", "PlannedJob", "load", "parse", "plan"]
