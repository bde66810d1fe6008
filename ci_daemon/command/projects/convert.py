"""`ci-daemon convert`: write the pipeline that files of another system describe."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon import convert as conversion
from ci_daemon import draft
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.convert.located import read
from ci_daemon.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.convert import Omission
    from ci_daemon.draft import DraftPipeline

__all__ = ["convert"]

_GITLAB = (".gitlab-ci.yml", ".gitlab-ci.yaml")
_WORKFLOWS = Path(".github", "workflows")


@click.command(cls=CallerCommand, reads=True)
@click.argument("path", metavar="[FILE|DIR]", default=".", type=click.Path(exists=True, path_type=Path))
@click.option("--print", "only_print", is_flag=True, help="Print the pipeline file; write nothing.")
@pass_session
def convert(session: Session, *, path: Path, only_print: bool) -> int:
    """Write .hm/pipeline.py from the files of GitLab CI or GitHub Actions in DIR, or from FILE.

    All that is not converted is listed with its line and the reason, and the exit code is 3 then. A pipeline that is
    there is never overwritten.
    """
    tree, files = _sources(path)
    pipelines: list[DraftPipeline] = []
    omissions: list[Omission] = []
    for file in files:
        found, left_out = _converted(file)
        pipelines += [replace(each, slug=_unused(each.slug, pipelines)) for each in found]
        omissions += left_out
    text = draft.written(
        pipelines,
        f"Converted by `ci-daemon convert` from {', '.join(each.name for each in files)}.",
    )
    written = None
    if only_print and pipelines and not session.json:
        click.echo(text, nl=False)
    elif pipelines and not only_print:
        try:
            written = draft.place(tree, text)
        except draft.PipelineExists as error:
            raise Failure(str(error)) from error
    _tell(session, written, text, omissions)
    if not pipelines:
        raise Failure("nothing in these files can be converted")
    return ExitCode.UNFINISHED if omissions else ExitCode.SUCCESS


def _unused(slug: str, pipelines: Sequence[DraftPipeline]) -> str:
    """Return a slug that none of the pipelines has."""
    taken = {each.slug for each in pipelines}
    numbered = (slug if number == 1 else f"{slug}-{number}" for number in itertools.count(1))
    return next(each for each in numbered if each not in taken)


def _tell(session: Session, written: Path | None, text: str, omissions: Sequence[Omission]) -> None:
    document = {
        "file": None if written is None else str(written),
        "text": text,
        "left_out": [each.as_json() for each in omissions],
    }
    if session.json:
        session.answer(document, "")
        return
    for each in omissions:
        click.echo(printable(str(each)), err=True)
    if written is not None:
        left = ", without what is listed above" if omissions else ""
        click.echo(f"wrote {written}{left}; `ci-daemon lint` shows its steps")


def _sources(path: Path) -> tuple[Path, list[Path]]:
    """Return the project of a path, and the files to convert."""
    if path.is_file():
        folder = path.resolve().parent
        return folder.parent.parent if folder.parts[-2:] == _WORKFLOWS.parts else folder, [path]
    found = [path / name for name in _GITLAB if (path / name).is_file()]
    workflows = path / _WORKFLOWS
    found += sorted([*workflows.glob("*.yml"), *workflows.glob("*.yaml")])
    if not found:
        raise Failure(f"{path} has neither {_GITLAB[0]} nor {_WORKFLOWS}/*.yml: give a file")
    return path, found


def _converted(file: Path) -> tuple[tuple[DraftPipeline, ...], tuple[Omission, ...]]:
    try:
        document = read(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8 text") from error
    except conversion.NotReadable as error:
        raise Failure(f"{file}: {error}") from error
    omissions = conversion.Omissions(str(file))
    if document.get("jobs").mapping() and "on" in document.mapping():
        return conversion.convert_github(document, file.stem, omissions), omissions.all
    return conversion.convert_gitlab(document, omissions), omissions.all
