"""The v0 pipeline IR: parses its text into a plan, or reports its first error, with all others.

Pure: no I/O, no clock, safe in any thread (pipeline-ir.md, "Plan"). All but the limits and the error is imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.ir.decoding import Fault, IrError
    from actors.ir.ordering import Plan
    from actors.ir.planning import load, parse, plan
    from actors.ir.settings import IrSettings
    from actors.ir.step import RUNNER_ARGS
    from actors.ir.triggers import Globs, PullRequestEvent, PushEvent, concerns, skips_builds, wants
else:
    __getattr__ = on_first_use(__name__)
