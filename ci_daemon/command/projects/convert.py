"""`ci-daemon convert`: write the pipeline that files of another system describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.ir.systems import NotReadable
from ci_daemon import convert as conversion
from ci_daemon import draft
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.convert import Conversion


@click.command(cls=CallerCommand, reads=True)
@click.argument("path", metavar="[FILE|DIR]", default=".", type=click.Path(exists=True, path_type=Path))
@click.option("--print", "only_print", is_flag=True, help="Print the pipelines; write nothing.")
@pass_session
def convert(session: Session, *, path: Path, only_print: bool) -> int:
    """Write .hm/NAME.yml for each file of another system in DIR, or for FILE.

    They are those of GitLab CI, Woodpecker, Drone and builds.sr.ht, and workflows of GitHub, Forgejo and Gitea. With
    FILE, .hm/ is at the root of its repository. All that is not converted, or not exactly, is listed with its line
    and the reason, which also stand as comments in what is written, and the exit code is 3 then. A job that would run
    otherwise than there is left out, with all that wait for it. Files of more systems are refused. A pipeline that is
    there is never overwritten.
    """
    try:
        project = conversion.Project.at(path)
        found = conversion.converted(project)
    except NotReadable as error:
        raise Failure(str(error)) from error
    written: list[Path] = []
    if only_print and not session.json:
        click.echo("\n".join(f"# .hm/{name}\n{text}" for name, text in found.texts.items()), nl=False)
    elif found.texts and not only_print:
        try:
            written = draft.place(project.root, found.texts)
        except draft.PipelineExists as error:
            raise Failure(str(error)) from error
    _tell(session, written, found)
    if not found.texts:
        raise Failure("nothing in these files can be converted")
    return ExitCode.UNFINISHED if found.omissions else ExitCode.SUCCESS


def _tell(session: Session, written: Sequence[Path], found: Conversion) -> None:
    document = {
        "files": [str(each) for each in written],
        "texts": dict(found.texts),
        "left_out": [each.as_json() for each in found.omissions],
    }
    if session.json:
        session.answer(document, "")
        return
    for each in found.omissions:
        click.echo(printable(str(each)), err=True)
    if written:
        names = ", ".join(map(str, written))
        left = ", without what is listed above" if found.omissions else ""
        click.echo(f"wrote {names}{left}; `ci-daemon lint` shows the jobs")
