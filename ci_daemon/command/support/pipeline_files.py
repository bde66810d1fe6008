"""The pipeline of a tree on the command line, and the exit codes of its builds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Failure
from storage import BuildState, slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

EXIT_CODES: Mapping[BuildState, ExitCode] = {
    BuildState.PASSED: ExitCode.SUCCESS,
    BuildState.FAILED: ExitCode.FAILURE,
    BuildState.CANCELED: ExitCode.UNFINISHED,
}
"""The exit code of a command that follows a build to its end."""

ir_option = click.option(
    "--ir",
    "ir_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The pipeline as v0 IR in JSON, instead of rendering DIR's.",
)

strict_shell_flag = click.option(
    "--strict-shell",
    is_flag=True,
    help="Each line of a command that fails fails its step, as in a service with jobs.strict_shell.",
)


def check_slug(pipeline: str) -> None:
    """Raise Failure if this is not a valid slug."""
    slug = slugify(pipeline)
    if slug != pipeline:
        raise Failure(f'"{pipeline}" is not a slug' + (f": give --pipeline {slug}" if slug else ": use a-z, 0-9 and -"))


def pipeline_ir(tree: Path, file: Path | None) -> str | None:
    """Return the IR in a file; None without a file, so that the tree's own is rendered.

    Raises Failure.
    """
    if file is None:
        if not any((tree / ".hm").glob("*.py")):
            if any((tree / ".hm").glob("*.[tj]s")):
                raise Failure(
                    f"{tree} has pipelines in TypeScript or JavaScript alone, and those in Python are rendered here:"
                    " `ci-daemon new` writes a first one; or give --ir FILE with the plan that yours renders to"
                )
            raise Failure(f"{tree} has no pipeline in .hm/*.py: `ci-daemon new` writes a first one; or give --ir FILE")
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8 text: give --ir the JSON that the pipeline renders to") from error
    if not text.strip():
        raise Failure(f"{file} is empty: give --ir the JSON that the pipeline renders to")
    return text
