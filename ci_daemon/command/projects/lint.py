"""`ci-daemon lint`: check the pipelines of a tree without building them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.ir import IrSettings
from actors.render import RenderFailed
from ci_daemon import lint as linting
from ci_daemon import local
from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.pipeline_files import check_slug, ir_option, pipeline_ir, strict_shell_flag
from ci_daemon.command.support.pipeline_table import show_pipeline
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable

if TYPE_CHECKING:
    from ci_daemon.lint import Report


@click.command(cls=CallerCommand, reads=True)
@click.argument("tree", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pipeline", metavar="SLUG", help="Only this one of several.")
@ir_option
@click.option("--dot", "graph", flag_value="dot", help="Print the graph alone, for Graphviz.")
@click.option("--mermaid", "graph", flag_value="mermaid", help="Print the graph alone, for Mermaid.")
@strict_shell_flag
@pass_session
def lint(
    session: Session,
    *,
    tree: Path,
    pipeline: str | None,
    ir_file: Path | None,
    graph: str | None,
    strict_shell: bool,
) -> int:
    """Check the pipelines of DIR, by default of the working directory, and show their steps.

    YAML is read at once, other pipeline files are rendered in a VM of this machine, and nothing is built. All mistakes
    are printed with their file and line. The exit code is 1 if there is one; warnings do not count.
    """
    if pipeline is not None:
        check_slug(pipeline)
    text = pipeline_ir(tree, ir_file)
    if text is None:
        report = _of_tree(tree, pipeline, strict_shell=strict_shell)
    else:
        slug = pipeline or submission.folder_slug(tree)
        linted = linting.check_ir(slug, text, str(ir_file), IrSettings(), strict_shell=strict_shell)
        report = linting.Report((linted,))
    _show(session, report, graph)
    return ExitCode.FAILURE if report.mistakes else ExitCode.SUCCESS


def _of_tree(tree: Path, slug: str | None, *, strict_shell: bool) -> Report:
    try:
        source = local.render_tree(tree, lambda line: click.echo(line, err=True))
        if slug is not None or not source.envelope.pipelines:
            chosen = [source.envelope.select(slug or "")]
        else:
            chosen = list(source.envelope.pipelines)
    except RenderFailed as failure:
        return linting.refused(failure)
    files = linting.PipelineFiles.read(tree)
    strict = strict_shell or source.strict_shell
    return linting.Report(
        tuple(linting.check_declared(each, files, source.limits, source.files, strict_shell=strict) for each in chosen)
    )


def _show(session: Session, report: Report, graph: str | None) -> None:
    """Print what was found on stderr, and the pipelines on stdout; with `--json` all in one document."""
    if session.json and graph is not None:
        raise Failure("--json has the graph: leave out --dot and --mermaid")
    if session.json:
        session.answer(report.as_json(), "")
        return
    if graph is not None:
        click.echo({"dot": linting.dot, "mermaid": linting.mermaid}[graph](report.pipelines))
    else:
        for pipeline in report.pipelines:
            show_pipeline(pipeline)
    sys.stdout.flush()
    for warning in report.warnings:
        click.echo(f"warning: {_printable(str(warning))}", err=True)
    for mistake in report.mistakes:
        click.echo(_printable(mistake.text), err=True)
    if report.mistakes:
        click.echo(f"mistakes: {len(report.mistakes)}", err=True)


def _printable(text: str) -> str:
    """Return a text of several lines without control characters."""
    return "\n".join(map(printable, text.splitlines()))
