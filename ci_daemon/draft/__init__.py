"""Pipelines that a program writes: their model, and their text in Python or in YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.draft.model import DAILY, DraftCache, DraftPipeline, DraftStep
    from ci_daemon.draft.placing import PipelineExists, place
    from ci_daemon.draft.python_writing import written
    from ci_daemon.draft.yaml_text import yaml_written
else:
    __getattr__ = on_first_use(__name__)
