"""`ci-daemon convert`: write the pipeline that files of another system describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon import convert as conversion
from ci_daemon import draft
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.convert import Omission


@click.command(cls=CallerCommand, reads=True)
@click.argument("path", metavar="[FILE|DIR]", default=".", type=click.Path(exists=True, path_type=Path))
@click.option("--print", "only_print", is_flag=True, help="Print the pipeline file; write nothing.")
@pass_session
def convert(session: Session, *, path: Path, only_print: bool) -> int:
    """Write .hm/pipeline.py from the files of GitLab CI, or the workflows, in DIR, or from FILE.

    Workflows are those of GitHub, Forgejo and Gitea. With FILE, .hm/ is at the root of its repository. All that is not
    converted, or not exactly, is listed with its line and the reason, and the exit code is 3 then. A job that would run
    otherwise than there is left out, with all that wait for it. Files of other systems are refused. A pipeline that is
    there is never overwritten.
    """
    try:
        project = conversion.Project.at(path)
        pipelines, omissions = conversion.converted(project)
    except conversion.NotReadable as error:
        raise Failure(str(error)) from error
    text = draft.written(
        pipelines,
        f"Converted by `ci-daemon convert` from {', '.join(each.name for each in project.files)}.",
    )
    written = None
    if only_print and pipelines and not session.json:
        click.echo(text, nl=False)
    elif pipelines and not only_print:
        try:
            written = draft.place(project.root, text)
        except draft.PipelineExists as error:
            raise Failure(str(error)) from error
    _tell(session, written, text, omissions)
    if not pipelines:
        raise Failure("nothing in these files can be converted")
    return ExitCode.UNFINISHED if omissions else ExitCode.SUCCESS


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
