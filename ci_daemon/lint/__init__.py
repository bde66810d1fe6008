"""Checks of a project's pipelines without building them: `ci-daemon lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.lint.checking import check_declared, check_ir, refused
    from ci_daemon.lint.drawing import dot, mermaid, step_rows
    from ci_daemon.lint.pipeline_files import PipelineFiles
    from ci_daemon.lint.report import Finding, LintedPipeline, Report
else:
    __getattr__ = on_first_use(__name__)
