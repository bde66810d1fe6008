"""Pipelines, as v0 IR and as the language's own documents: a plan, or the first error with all others.

Pure: no I/O, no clock, safe in any thread (pipeline-ir.md, "Plan"). All but the limits and the error is imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.ir.built import (
        CONTAINERS_VARIABLE,
        EVENT_VARIABLE,
        EVENTS,
        MAX_INPUT_CHARS,
        MOST_INPUTS,
        Built,
        event_of,
    )
    from actors.ir.decoding import Fault, IrError
    from actors.ir.language.generating import values_of_inputs
    from actors.ir.language.python_keys import python_keys
    from actors.ir.language.reference import json_schema, language_reference
    from actors.ir.language.rendering import PipelineFile
    from actors.ir.language.yaml_text import FileInvalid
    from actors.ir.planning import Plan, load, parse, plan, with_needed
    from actors.ir.problems import ProblemRow, find_problems
    from actors.ir.schedule_times import ScheduleInvalid, ScheduleTimes
    from actors.ir.settings import IrSettings
    from actors.ir.step import RUNNER_ARGS
    from actors.ir.triggers import (
        Globs,
        PullRequestEvent,
        PushEvent,
        UpstreamValue,
        concerns,
        decides,
        skips_builds,
        wants,
        why_skipped,
    )
else:
    __getattr__ = on_first_use(__name__)
