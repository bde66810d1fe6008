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
    help="The pipeline as JSON, version 0 or 1, instead of rendering DIR's.",
)


def _inputs(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read ``NAME=VALUE`` as often as it is given; the pipeline tells whether it fits."""
    pairs = [each.partition("=") for each in given]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise click.BadParameter(f'"{name}" is not NAME=VALUE')
    return {name: value for name, _, value in pairs}


inputs_option = click.option(
    "--input",
    "inputs",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_inputs,
    help="Give an input that the pipeline declares.",
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


def _of_other_systems(tree: Path) -> list[str]:
    """Return the files of other systems that are rendered as they are."""
    from actors.ir.systems import FOLDERS, TOP, files_of_others  # noqa: PLC0415 - for trees without pipelines alone

    found = [name for name in TOP if (tree / name).is_file()]
    found += [f"{folder}/{each.name}" for folder in FOLDERS for each in (tree / folder).glob("*")]
    return files_of_others(found)


def pipeline_ir(tree: Path, file: Path | None) -> str | None:
    """Return the IR in a file; None without a file, so that the tree's own is rendered.

    Raises Failure.
    """
    if file is None:
        from actors.render import is_yaml_name  # noqa: PLC0415 - most commands about builds render nothing

        own = list((tree / ".hm").glob("*.*"))
        if any(each.suffix == ".py" or is_yaml_name(each.name) for each in own):
            return None
        if any(each.suffix in {".js", ".ts"} for each in own):
            raise Failure(
                f"{tree} has pipelines in TypeScript or JavaScript alone, and those in YAML or Python are rendered:"
                " `ci-daemon new` writes a first one; or give --ir FILE with the plan that yours renders to"
            )
        if own or not _of_other_systems(tree):
            raise Failure(f"{tree} has no pipeline in .hm: `ci-daemon new` writes a first one; or give --ir FILE")
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8 text: give --ir the JSON that the pipeline renders to") from error
    if not text.strip():
        raise Failure(f"{file} is empty: give --ir the JSON that the pipeline renders to")
    return text
