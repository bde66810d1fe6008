"""Pipelines that a program writes: their model, and their text in the DSL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.draft.model import (
        DAILY,
        DraftCache,
        DraftPipeline,
        DraftStep,
        PullRequests,
        Pushes,
    )
    from ci_daemon.draft.placing import PipelineExists, place
    from ci_daemon.draft.writing import command_of, steps_of, written
else:
    __getattr__ = on_first_use(__name__)
