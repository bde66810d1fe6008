"""The steps of a pipeline as a table on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon import lint as linting
from ci_daemon.lint.drawing import triggers_in_words
from ci_daemon.terminal.tables import DocumentTable, print_renderable
from ci_daemon.terminal.text import precise_duration, printable

if TYPE_CHECKING:
    from ci_daemon.lint import LintedPipeline


def show_pipeline(pipeline: LintedPipeline) -> None:
    """Print the steps of a pipeline as a table; of one with mistakes there is none."""
    click.echo(f"pipeline {printable(pipeline.slug)}")
    if pipeline.triggers is not None:
        click.echo(f"built for: {printable(triggers_in_words(pipeline.triggers))}")
    if pipeline.plan is None:
        return
    if pipeline.plan.timeout_seconds is not None:
        click.echo(f"time-out: {precise_duration(pipeline.plan.timeout_seconds)}")
    click.echo()
    rows = linting.step_rows(pipeline)
    print_renderable(DocumentTable(rows, tuple(rows[0]) if rows else ()))
    click.echo()
